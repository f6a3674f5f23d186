"""Nested plain values with dotted keys, and the rule by which a later layer is laid over an earlier one.

`search`, `reference_point` and `fidelity` are flat: their keys are dotted names themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from dmltune.experiment.problems import Path

FLAT = ("search", "reference_point", "fidelity")
COMPONENTS = ("backbone", "pooling", "loss", "references", "transform")  # the parts of a method
SEARCH_COMPONENTS = ("sampler", "scheduler")
NAMED = (*COMPONENTS, *SEARCH_COMPONENTS, "data", "optimizer")  # `loss: triplet` is short for its name
SECTIONS = ("data", *COMPONENTS, "embedding", "zero_shot", "batch", "optimizer", "objective", "monitor")
_SPECIFICATION = ("float", "int", "choice", "log", "when")
MISSING: Final = object()


def split(name: str) -> Path:
    """`search.references.lambda.log` → (search, references.lambda, log); elsewhere every dot separates."""
    parts = name.split(".")
    if parts[0] not in FLAT or len(parts) < 3:
        return tuple(parts)
    tail = [parts.pop()] if parts[0] == "search" and parts[-1] in _SPECIFICATION and len(parts) > 3 else []
    return (parts[0], ".".join(parts[1:]), *tail)


def lookup(tree: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted key, or MISSING."""
    value: Any = tree
    for part in split(name):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key → leaf. The specification of a key of `search` is one leaf, an empty mapping none."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not prefix.startswith("search."):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def nested(path: Path, value: Any) -> Any:
    """`(("a", "b"), 1)` → `{"a": {"b": 1}}`."""
    for part in reversed(path):
        value = {part: value}
    return value


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` with `over` laid over it."""
    result = copy.deepcopy(dict(base))
    lay_over(result, over)
    return result


def with_values(tree: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Lay dotted values over a copy of the tree; names first, because a new name drops the old parameters."""
    result = copy.deepcopy(dict(tree))
    for name in sorted(values, key=lambda name: (name.count("."), not name.endswith(".name"))):
        lay_over(result, nested(split(name), values[name]))
    return result


def lay_over(
    base: dict[str, Any],
    over: Mapping[str, Any],
    path: Path = (),
    note: Callable[[Path, bool], None] | None = None,
) -> None:
    """Lay `over` on `base` in place.

    Mappings merge key by key, anything else replaces. A component that gets another name starts anew, without
    the parameters of the old one (an optimizer keeps those that all optimizers have). In the
    flat ones a key is replaced whole, and null removes it. `note(path, whole)` is called for every
    key that is written; `whole` means that nothing of the value before is left.
    """
    note = note or (lambda path, whole: None)
    for key, raw in over.items():
        inner = (*path, key)
        value = normalised(inner, raw)
        before = base.get(key)
        if path and path[-1] in FLAT and value is None:
            base.pop(key, None)
            note(inner, True)
        elif isinstance(value, Mapping) and not (path and path[-1] in FLAT):
            fresh = not isinstance(before, Mapping) or renamed(inner, before, value)
            if fresh:
                base[key] = _shared(inner, before)
            note(inner, fresh)
            lay_over(base[key], value, inner, note)
        else:
            base[key] = copy.deepcopy(value)
            note(inner, True)


def normalised(path: Path, value: Any) -> Any:
    """Return the long form of a short one: a component or one requirement given as a text."""
    if _section(path) in NAMED and isinstance(value, str):
        return {"name": value}
    if path == ("require",) and (value is None or isinstance(value, str)):
        return [] if value is None else [value]
    return value


def renamed(path: Path, before: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    """Whether `over` gives the component at `path` another name."""
    if _section(path) not in (*COMPONENTS, *SEARCH_COMPONENTS, "optimizer"):
        return False
    return "name" in over and "name" in before and over["name"] != before["name"]


def _section(path: Path) -> str:
    """The section a path names, also inside `baseline`; empty when it names something deeper."""
    section = path[1:] if path[:1] == ("baseline",) else path
    return section[0] if len(section) == 1 else ""


def _shared(path: Path, before: Any) -> dict[str, Any]:
    if _section(path) != "optimizer" or not isinstance(before, Mapping):
        return {}
    return {key: value for key, value in before.items() if key not in ("name", "betas", "momentum")}


def choices(specification: Any) -> list[Any]:
    """Return the choices of a key of `search`; nothing for a range, or for what is not valid."""
    found = specification.get("choice") if isinstance(specification, Mapping) else None
    return list(found) if isinstance(found, (list, tuple)) else []


def without_choices(specification: Any, key: str, removed: list[Any]) -> Any:
    """Return a specification that does not apply when `key` is one of `removed`; None when it never does."""
    if isinstance(specification, list):
        ranges = [without_choices(each, key, removed) for each in specification]
        left = [each for each in ranges if each is not None]
        return left if len(left) > 1 else left[0] if left else None
    when = specification.get("when") if isinstance(specification, Mapping) else None
    if not isinstance(when, Mapping) or key not in when:
        return specification
    allowed = when[key] if isinstance(when[key], list) else [when[key]]
    left = [value for value in allowed if value not in removed]
    return {**specification, "when": {**when, key: left}} if left else None
