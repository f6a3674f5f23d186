"""What a key is: its meaning, its default and range, and where the named spaces set or search it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from annotated_types import Ge, Gt, Interval, Le, Lt
from pydantic.fields import FieldInfo

from dmltune.core import components as signatures
from dmltune.errors import UserError, nearest, readable
from dmltune.experiment import tree as trees
from dmltune.experiment.files.places import chain, named_files
from dmltune.experiment.model import Experiment
from dmltune.experiment.problems import Problem, show
from dmltune.experiment.schema import components
from dmltune.experiment.space.parameter import Parameter, parse_ranges
from dmltune.meanings import Meaning, meanings

FOREIGN = "A parameter of {0}, which {1} documents."
LIBRARIES = {"pml": "pytorch-metric-learning", "timm": "timm", "torchvision": "torchvision"}
KINDS = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "null"}
NEEDED, FREE = "none: it has to be given", ""


@dataclass(frozen=True)
class Explanation:
    """One meaning of a key: that of `component`, or of every one when it is empty."""

    key: str
    component: str
    meaning: str
    equation: str
    papers: str
    default: str
    range: str


@dataclass(frozen=True)
class Usage:
    """What a named space does with a key: its value, and its range where it is searched."""

    space: str
    value: Any  # of the reference point, of the file, or of a preset; None when none sets it
    component: str = ""  # whose preset the value is
    ranges: tuple[Parameter, ...] = ()


def explanations(key: str) -> tuple[Explanation, ...]:
    """Return what a key means, also `loss.triplet.margin`; a UserError names the nearest key."""
    plain, component = _parted(key)
    if component and "/" in component:
        return (_foreign(plain, component),)
    found = [each for each in meanings().get(plain, ()) if component in ("", each.component)]
    if not found:
        options = [*meanings(), *(_full(each) for each in _all() if each.component)]
        raise UserError(f"no key {readable(key)}{nearest(key, options) or _beginning(key)}")
    return tuple(_explained(each) for each in found)


def keys() -> list[str]:
    """Return every key that has a meaning, in alphabetical order."""
    return sorted(meanings())


def usages(key: str) -> Iterator[Usage]:
    """Yield every named space that sets or searches a key; spaces that cannot be read are left out."""
    plain, wanted = _parted(key)
    for name, file in sorted(named_files("search_spaces").items()):
        tree: dict[str, Any] = {}
        try:
            for _, document in chain(file):
                trees.lay_over(tree, document.tree)
            specification = (tree.get("search") or {}).get(plain)
            ranges = tuple(parse_ranges(plain, specification)) if specification else ()
        except (Problem, UserError, AttributeError):
            continue
        yield from _used(name, tree, plain, wanted, ranges)


def _used(
    space: str, tree: Mapping[str, Any], key: str, wanted: str, ranges: tuple[Parameter, ...]
) -> Iterator[Usage]:
    section, _, leaf = key.partition(".")
    reference = tree.get("reference_point")
    own = reference.get(key) if isinstance(reference, Mapping) else None
    own = trees.lookup(tree, key) if own is None else own
    chosen = trees.lookup(tree, f"{section}.name")
    preset = trees.lookup(tree, f"presets.{section}")
    presets = preset if isinstance(preset, Mapping) and leaf else {}
    brought = {name: values[leaf] for name, values in presets.items() if _has(values, leaf)}
    if own is trees.MISSING:
        own = brought.get(chosen)
    if (own is not None or ranges) and wanted in ("", chosen):
        yield Usage(space, own, "", ranges)
    for name, value in brought.items():
        if wanted in ("", name) and not (ranges and name == chosen):
            yield Usage(space, value, name)


def _has(values: Any, leaf: str) -> bool:
    return isinstance(values, Mapping) and leaf in values


def _parted(key: str) -> tuple[str, str]:
    """`loss.triplet.margin` → (loss.margin, triplet); a key without a component stays as it is."""
    section, _, rest = key.partition(".")
    component, dot, leaf = rest.rpartition(".")
    if dot and section in (*trees.COMPONENTS, *trees.SEARCH_COMPONENTS):
        return f"{section}.{leaf}", component
    return key, ""


def _all() -> Iterable[Meaning]:
    return (each for group in meanings().values() for each in group)


def _full(each: Meaning) -> str:
    section, _, leaf = each.key.partition(".")
    return f"{section}.{each.component}.{leaf}"


def _beginning(key: str) -> str:
    """Return the keys of the section that `key` begins with, or a way to all keys."""
    section = key.partition(".")[0]
    inner = sorted({each.key for each in _all() if each.key.startswith(f"{section}.")})
    return f"; there are {', '.join(inner)}" if inner else "; `dmltune explain` lists them"


def _explained(found: Meaning) -> Explanation:
    section, _, leaf = found.key.partition(".")
    default, limits = FREE, FREE
    if found.component:
        default, limits = _of_signature(components.signature(section, found.component)[leaf])
    elif field := _field(section, leaf):
        default = NEEDED if field.is_required() else show(field.get_default(call_default_factory=True), 60)
        limits = _limits(field.annotation, field.metadata)
    return Explanation(
        found.key, found.component, found.meaning, found.equation, found.papers, default, limits
    )


def _of_signature(parameter: inspect.Parameter) -> tuple[str, str]:
    missing = parameter.default is parameter.empty
    return NEEDED if missing else show(parameter.default, 60), _limits(parameter.annotation, [])


def _field(section: str, leaf: str) -> FieldInfo | None:
    """Return pydantic's field of a key; none for those of `fidelity` and of components."""
    field = Experiment.model_fields.get(section)
    if not leaf or field is None:
        return field if not leaf else None
    inner = getattr(field.annotation, "model_fields", {})
    found = inner.get(leaf)
    return found if isinstance(found, FieldInfo) else None


def _foreign(key: str, component: str) -> Explanation:
    section, _, leaf = key.partition(".")
    family, _, model = component.partition("/")
    known = components.signature(section, component)
    if leaf not in known:
        hint = nearest(leaf, known) or f"; there are {', '.join(known) or 'none'}"
        raise UserError(f"no parameter {readable(leaf)} of {component}{hint}")
    default, limits = _of_signature(known[leaf])
    text = FOREIGN.format(model, LIBRARIES.get(family, family))
    return Explanation(key, component, text, "", "", default, limits)


def _limits(annotation: Any, metadata: Iterable[Any]) -> str:
    """Return `a number, at least 0` for an annotation with its constraints."""
    bounds: dict[str, Any] = {}
    for constraint in (*metadata, *_constraints(annotation)):
        bounds |= {
            name: getattr(constraint, name) for name in ("ge", "gt", "le", "lt") if hasattr(constraint, name)
        }
    limits = Interval(**{name: bound for name, bound in bounds.items() if bound is not None})
    return ", ".join(text for text in (_kind(annotation), signatures.range_text(limits)) if text)


def _kind(annotation: Any) -> str:
    """Return `a number or null`, `one of max, min`, or nothing for what has no short name."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, options))
    if origin is typing.Annotated:
        return _kind(options[0])
    if origin in (tuple, list):
        return "a list"
    if origin is dict or annotation is dict:
        return "a mapping"
    if options:
        distinct = [option for option in options if not (option is int and float in options)]
        return " or ".join(kind for option in distinct if (kind := _kind(option)))
    return KINDS.get(annotation, "")


def _constraints(annotation: Any) -> Iterator[Any]:
    """Yield the bounds of a type and of the members of a union, but not of what a tuple or list holds."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal or origin in (tuple, list, dict):
        return
    for each in getattr(annotation, "__metadata__", ()):
        inner = each.metadata if isinstance(each, FieldInfo) else (each,)
        yield from (bound for bound in inner if isinstance(bound, Ge | Gt | Le | Lt | Interval))
    for option in typing.get_args(annotation):
        yield from _constraints(option)
