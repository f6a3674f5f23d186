"""What pydantic found wrong, in this project's words: key, rule, value, remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dmltune.experiment.problems import (
    Path,
    Problem,
    dotted,
    kind_of,
    near_or_list,
    number_remedy,
    show,
    unknown,
)

_RULES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "model": "a mapping of 'key: value' lines",
    "dict": "a mapping of 'key: value' lines",
    "list": "a list",
    "tuple": "a list",
    "none": "null",
    "missing": "given",
}
_LIMITS = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}


def problem_of(error: ValidationError, model: type[BaseModel]) -> Problem:
    """The first error as a Problem; an unknown key comes before a missing one, which it often explains."""
    errors = sorted(error.errors(include_url=False), key=lambda found: found["type"] == "missing")
    found = errors[0]
    path: Path = tuple(str(part) for part in found["loc"])
    kind, value, context = found["type"], found.get("input"), found.get("ctx", {})
    name = dotted(path)
    if kind == "extra_forbidden":
        fields = _fields(model, path[:-1])
        return Problem(unknown(path[-1], fields, dotted(path[:-1])), path)
    if kind == "too_long" or kind == "too_short" or (kind == "missing" and path[-1].isdigit()):
        listed = dotted(path[:-1]) if path[-1].isdigit() else name
        return Problem(f"{listed} must be a list of two numbers, such as [0.9, 0.999].", path[:-1], path)
    if kind == "missing":
        return Problem(f"{name} is missing. Add '{name}: …'.", path)
    if kind in _LIMITS:
        bound, word = _LIMITS[kind]
        return Problem(f"{name} must be {word} {show(context[bound])}; got {show(value)}.", path)
    if kind == "literal_error":
        choices = _choices(str(context.get("expected", "")))
        if not isinstance(value, str):
            return Problem(f"{name} must be one of {', '.join(choices)}; got {kind_of(value)}.", path)
        return Problem(f"no {name} {show(value)}{near_or_list(value, choices, 'there are')}", path)
    if kind == "string_too_short":
        return Problem(f"{name} must not be empty.", path)
    rule = _RULES.get(kind.split("_")[0])
    if rule is None:
        return Problem(f"{name}: {found['msg']}; got {show(value)}.", path)
    remedy = number_remedy(value, rule == _RULES["int"]) if kind.split("_")[0] in ("int", "float") else ""
    return Problem(f"{name} must be {rule}; got {kind_of(value)}.{remedy or _remedy(rule, value)}", path)


def _remedy(rule: str, value: Any) -> str:
    if rule == "true or false" and value in (0, 1, "yes", "no", "on", "off", "True", "False"):
        return f" Write {'true' if value in (1, 'yes', 'on', 'True') else 'false'}."
    if rule == "a text" and value is not None and not isinstance(value, (Mapping, list)):
        return f" Quote it: '{value}'."
    if rule == "a list" and not isinstance(value, Mapping) and value is not None:
        return f" Write [{show(value)}]."
    return ""


def _fields(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the section at `path` knows."""
    for part in path:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)


def _choices(expected: str) -> list[str]:
    """Pydantic's "'a', 'b' or 'c'" as a list."""
    return [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]
