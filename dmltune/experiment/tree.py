"""Nested plain values, their dotted keys, and the one rule by which a later layer is laid over an earlier.

`search` and `reference_point` are flat: their keys are dotted names themselves.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

from dmltune.experiment.problems import Path
from dmltune.experiment.schema.sections import COMPONENTS, NAMED

FLAT = ("search", "reference_point")
SECTIONS = (
    "data",
    "backbone",
    "embedding",
    "pooling",
    "loss",
    "references",
    "transform",
    "zero_shot",
    "batch",
    "optimizer",
    "objective",
)


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


def split(name: str) -> Path:
    """`search.references.lambda.log` → (search, references.lambda, log); elsewhere every dot separates."""
    parts = name.split(".")
    if parts[0] not in FLAT or len(parts) < 3:
        return tuple(parts)
    tail = [parts.pop()] if parts[0] == "search" and parts[-1] in _SPEC_KEYS and len(parts) > 3 else []
    return (parts[0], ".".join(parts[1:]), *tail)


_SPEC_KEYS = ("float", "int", "choice", "log", "when")


def lookup(tree: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted key, or MISSING."""
    here: Any = tree
    for part in split(name):
        if not isinstance(here, Mapping) or part not in here:
            return MISSING
        here = here[part]
    return here


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key → leaf. The specification of a searched key counts as one leaf, an empty mapping as none."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not prefix.startswith("search."):
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def section_of(flat: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The keys of one section of a flat tree, without its name before them."""
    start = f"{section}."
    return {key[len(start) :]: value for key, value in flat.items() if key.startswith(start)}


def nested(name: str, value: Any) -> dict[str, Any]:
    """`("a.b", 1)` → `{"a": {"b": 1}}`."""
    for part in reversed(split(name)):
        value = {part: value}
    return dict(value)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid over a copy of `base`."""
    result = copy.deepcopy(dict(base))
    lay_over(result, over)
    return result


def with_values(tree: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted values laid over a copy of the tree; names first, for a new name drops the old parameters."""
    result = copy.deepcopy(dict(tree))
    for name in sorted(values, key=lambda name: (name.count("."), not name.endswith(".name"))):
        lay_over(result, nested(name, values[name]))
    return result


def lay_over(
    base: dict[str, Any],
    over: Mapping[str, Any],
    path: Path = (),
    note: Callable[[Path, bool], None] | None = None,
) -> None:
    """Lay `over` on `base` in place.

    Mappings merge key by key, anything else replaces. A component that gets another name starts anew, without
    the old one's parameters (an optimizer keeps what all share). In `search` and `reference_point` a key is
    replaced whole, and null takes it away. `note(path, whole)` hears of every key that is written; `whole`
    says that what stood there before is gone.
    """
    say = note or (lambda path, whole: None)
    for key, raw in over.items():
        here = (*path, key)
        value = normalised(here, raw)
        before = base.get(key)
        if path and path[-1] in FLAT and value is None:
            base.pop(key, None)
            say(here, True)
        elif isinstance(value, Mapping) and not (path and path[-1] in FLAT):
            fresh = not isinstance(before, Mapping) or renamed(here, before, value)
            if fresh:
                base[key] = _kept(here, before)
            say(here, fresh)
            lay_over(base[key], value, here, note)
        else:
            base[key] = copy.deepcopy(value)
            say(here, True)


def normalised(path: Path, value: Any) -> Any:
    """Short forms written out: a component as a text, one requirement as a text."""
    section = path[1:] if path[:1] == ("baseline",) else path
    if len(section) == 1 and section[0] in NAMED and isinstance(value, str):
        return {"name": value}
    if path == ("require",) and isinstance(value, str):
        return [value]
    if path == ("require",) and value is None:
        return []
    return value


def _section(path: Path) -> str:
    """The section a path names, also inside `baseline`; empty when it names something deeper."""
    section = path[1:] if path[:1] == ("baseline",) else path
    return section[0] if len(section) == 1 else ""


def renamed(path: Path, before: Mapping[str, Any], over: Mapping[str, Any]) -> bool:
    """Whether `over` gives the component at `path` another name."""
    if _section(path) not in (*COMPONENTS, "optimizer"):
        return False
    return "name" in over and "name" in before and over["name"] != before["name"]


def _kept(path: Path, before: Any) -> dict[str, Any]:
    if _section(path) != "optimizer" or not isinstance(before, Mapping):
        return {}
    return {key: value for key, value in before.items() if key not in ("name", "betas", "momentum")}
