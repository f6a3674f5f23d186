"""Messages about broken rules: rule, value and remedy in one line.

A `Problem` names the keys that take part; the caller who knows the file adds the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dmltune.errors import nearest, printable

Path = tuple[str, ...]

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


class Problem(Exception):
    """A rule that a value breaks. `paths` are the keys that take part, the most to blame first."""

    def __init__(self, message: str, *paths: Path) -> None:
        super().__init__(one_line(message))
        self.paths = paths


def one_line(text: str, width: int | None = None) -> str:
    """Return `text` with single spaces and escaped control characters, no longer than `width`."""
    text = printable(" ".join(text.split()))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def show(value: Any, width: int = 80) -> str:
    """Return a value as YAML writes it, on one line and not longer than `width`."""
    return one_line(_show(value), width)


def _show(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_show, value)) + "]"
    return repr(value)


def kind_of(value: Any) -> str:
    """Describe a value with its kind: 'the list [1]', 'the text 'x'', '8.0'."""
    if isinstance(value, Mapping):
        return f"the mapping {show(value)}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"the list {show(value)}"
    if isinstance(value, str):
        return f"the text {show(value)}"
    return "nothing (null)" if value is None else show(value)


def unknown(key: str, options: Iterable[str], section: str = "") -> str:
    """Return `unknown key 'lamda' in references; did you mean 'lambda'?` or the list of known keys."""
    where = f" in {section}" if section else ""
    return f"unknown key '{one_line(str(key), 60)}'{where}{near_or_list(key, options, 'known keys')}"


def near_or_list(name: str, options: Iterable[str], what: str = "known") -> str:
    """Return the nearest option when one is close, otherwise the first options in alphabetical order."""
    options = sorted(options)
    guess = nearest(name, options) or nearest(name.lower().replace("-", "_"), options)
    if guess:
        return printable(guess)
    if not options:
        return "; it takes none"
    return printable(f"; {what}: {', '.join(options[:12])}{', …' if len(options) > 12 else ''}")


def number_remedy(value: Any, whole: bool) -> str:
    """Return what to write instead of a number that came in another form."""
    if isinstance(value, bool):
        return " Write a number, not true or false."
    if not isinstance(value, (str, float)):
        return ""
    try:
        number = float(value.replace("_", "") if isinstance(value, str) else value)
    except ValueError:
        return ""
    quotes = " without quotes" if isinstance(value, str) else ""
    if whole and number.is_integer() and abs(number) < 1e15:
        return f" Write {int(number)}{quotes}."
    return f" Write {number!r}{quotes}." if quotes and not whole and abs(number) < float("inf") else ""


def problem_of(error: ValidationError, model: type[BaseModel]) -> Problem:
    """Translate the first error of pydantic; an unknown key, which explains a missing one, comes first."""
    first = min(error.errors(include_url=False), key=lambda entry: entry["type"] == "missing")
    path: Path = tuple(str(part) for part in first["loc"])
    kind, value, context = first["type"], first.get("input"), first.get("ctx", {})
    name = one_line(".".join(path), 100)
    if kind == "extra_forbidden":
        return Problem(unknown(path[-1], fields(model, path[:-1]), ".".join(path[:-1])), path)
    if kind == "too_long" and context["max_length"] > 2:
        length, most = context["actual_length"], context["max_length"]
        return Problem(f"{name} has {length} values; at most {most}.", path)
    if kind in ("too_long", "too_short") or (kind == "missing" and path[-1].isdigit()):
        name = ".".join(path[:-1]) if path[-1].isdigit() else name
        return Problem(f"{name} must be a list of two numbers, such as [0.9, 0.999].", path[:-1], path)
    if kind == "missing":
        return Problem(f"{name} is missing. Add '{name}: …'.", path)
    if kind in _LIMITS:
        bound, word = _LIMITS[kind]
        return Problem(f"{name} must be {word} {show(context[bound])}; got {show(value)}.", path)
    if kind == "literal_error":
        choices = [part.strip(" '") for part in context["expected"].replace(" or ", ", ").split(",")]
        if not isinstance(value, str):
            return Problem(f"{name} must be one of {', '.join(choices)}; got {kind_of(value)}.", path)
        return Problem(f"no {name} {show(value)}{near_or_list(value, choices, 'there are')}", path)
    if kind == "string_too_short":
        return Problem(f"{name} must not be empty.", path)
    if kind == "value_error":
        return Problem(f"{name}: {context['error']}; got {show(value)}.", path)
    rule = _RULES.get(kind.split("_")[0])
    if rule is None:
        return Problem(f"{name}: {first['msg']}; got {show(value)}.", path)
    return Problem(f"{name} must be {rule}; got {kind_of(value)}.{_remedy(rule, value)}", path)


def _remedy(rule: str, value: Any) -> str:
    if rule in (_RULES["int"], _RULES["float"]):
        return number_remedy(value, rule == _RULES["int"])
    if rule == _RULES["bool"] and value in (0, 1, "yes", "no", "on", "off", "True", "False"):
        return f" Write {'true' if value in (1, 'yes', 'on', 'True') else 'false'}."
    if value is None or isinstance(value, Mapping):
        return ""
    if rule == _RULES["string"] and not isinstance(value, list):
        return f" Quote it: '{show(value, 40)}'."
    return f" Write [{show(value)}]." if rule == _RULES["list"] else ""


def fields(model: type[BaseModel], path: Path) -> list[str]:
    """Return the keys that the section at `path` has."""
    for part in path:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
