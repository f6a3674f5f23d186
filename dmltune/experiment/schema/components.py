"""Validate a component's parameters against the signature of its class: types, ranges, defaults."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dmltune.core import components
from dmltune.errors import UserError, nearest
from dmltune.experiment.problems import (
    Path,
    Problem,
    near_or_list,
    number_remedy,
    one_line,
    problem_of,
    show,
    unknown,
)
from dmltune.experiment.schema import presets, sections
from dmltune.experiment.tree import COMPONENTS, SEARCH_COMPONENTS

_TINY = {"num_classes": 2, "dim": 2, "channels": 2, "in_channels": 2}
_USUAL_CHANNELS = 1024
_MAX_BUILT = 2**26  # elements: 256 MiB of float32
_MAX_ELEMENTS = 2**28  # for two classes in two dimensions
VALIDATED_TOGETHER = ("pooling", "loss", "references", "transform")
PLAIN_MODELS: dict[str, type[BaseModel]] = {
    "batch": sections.BatchSettings,
    "optimizer": sections.OptimizerSettings,
    "backbone": sections.BackboneSettings,
}
PACKAGES = {
    "backbone": "backbones",
    "pooling": "poolings",
    "loss": "losses",
    "references": "references",
    "transform": "transforms",
    "sampler": "dmltune.search.samplers",
    "scheduler": "dmltune.search.schedulers",
}


def complete(tree: dict[str, Any]) -> None:
    """Validate every component of `tree` in place and fill in what is missing.

    Missing values come from the space's presets, then from the defaults of the component's signature.
    """
    _validate_data(tree)
    known = tree.setdefault("presets", {})
    validate_presets(known)
    chosen = {section: tree[section] for section in (*COMPONENTS, *SEARCH_COMPONENTS) if section in tree}
    named = {key: value for key, value in chosen.items() if isinstance(value, dict)}
    names = {key: value["name"] for key, value in named.items() if isinstance(value.get("name"), str)}
    for section, name in names.items():
        given = presets.own(known, names, section) if section in presets.CHOSEN else {}
        values = {**given, **named[section]}
        if section == "backbone":
            find(section, name)
        tree[section] = values if section == "backbone" else _filled(section, values)


def find(section: str, name: str) -> type:
    """Return the class of a component, or raise a Problem with the nearest name."""
    try:
        return components.find(PACKAGES[section], name)
    except UserError as error:
        message = str(error).replace(name, one_line(name, 60), 1)
        raise Problem(message, (section, "name"), (section,)) from None


@functools.cache  # inspecting a signature takes 0.5 ms, and every point needs a dozen
def signature(section: str, name: str) -> Mapping[str, inspect.Parameter]:
    """Return the tunable parameters by their YAML names."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = components.parameters(find(section, name))
    return {key: parameter for key, parameter in known.items() if parameter.kind not in variadic}


def accept(section: str, name: str, key: str, value: Any) -> Any:
    """Return the value of one parameter in its declared type, or raise a Problem with rule and remedy."""
    known = signature(section, name)
    if key not in known:
        where = section if nearest(key, known) else f"{section} '{name}'"
        raise Problem(unknown(key, known, where), (section, key))
    violation = components.violation(known[key], value)
    kinds = _kinds(known[key].annotation)
    if violation:
        numeric = kinds & {int, float} and bool not in kinds
        remedy = number_remedy(value, float not in kinds) if numeric else ""
        rule = violation.rpartition("; got ")[0] or violation
        raise Problem(f"{section}.{key} {rule}; got {show(value)}.{remedy}", (section, key))
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        return float(value)
    return value


def needs(section: str, values: Any, key: str) -> bool:
    """Whether the component has this parameter and no default for it."""
    name = values.get("name") if isinstance(values, Mapping) else None
    if section not in VALIDATED_TOGETHER or not isinstance(name, str):
        return False
    parameter = signature(section, name).get(key)
    return parameter is not None and parameter.default is inspect.Parameter.empty


def refused(section: str, values: Mapping[str, Any], dim: int | None) -> str | None:
    """Return why a component does not take these values together, or None.

    The component is built for two classes in two dimensions. Only a pooling gets the real number of
    dimensions, which it may have to divide; without a number they are the channels of the backbone, which are
    not known yet.
    """
    import torch

    name, channels = values["name"], dim or _USUAL_CHANNELS
    chosen = {key: value for key, value in values.items() if key != "name"}
    given = {**_TINY, "channels": channels, "class_counts": torch.tensor([0, 2**40])}
    size = math.prod(value for value in chosen.values() if isinstance(value, int) and value > 0) * channels
    device = "meta" if size > _MAX_BUILT else "cpu"  # meta allocates nothing, but may import for 2 s
    try:
        with torch.random.fork_rng(devices=[]), torch.device(device):
            component = components.build(PACKAGES[section], name, given, chosen)
    except UserError as error:
        return f"{section} '{name}': {error}"
    except (RuntimeError, TypeError, OverflowError, MemoryError) as error:
        reason = one_line(str(error).partition("\n")[0], 100)
        return f"{section} '{name}' cannot be built with {show(chosen)}: {reason}. Use smaller numbers."
    elements = sum(tensor.numel() for tensor in (*component.parameters(), *component.buffers()))
    if elements > _MAX_ELEMENTS:
        rule = f"needs {4 * elements / 2**30:,.0f} GiB for two classes in two dimensions"
        return f"{section} '{name}' {rule}; got {show(chosen)}. Use smaller numbers."
    return None


def validate_presets(known: Any) -> None:
    """Require of `presets: {loss: {triplet: {margin: 0.1, batch: {size: 30}}}}` that each value is valid."""
    _require_mapping(known, ("presets",), "sections")
    for section, names in known.items():
        path = ("presets", section)
        if section == presets.OTHERWISE:
            _validate_settings(names, path)
            continue
        if section not in presets.CHOSEN:
            raise Problem(unknown(section, presets.CHOSEN, "presets"), path)
        _require_mapping(names, path, "names")
        for name, values in names.items():
            inner = (*path, name)
            _require_mapping(values, inner, "parameters")
            if section == "backbone":
                _validate_plain(section, values, inner)
                continue
            _validate_settings({key: values[key] for key in values if presets.brings(key)}, inner)
            _accept_all(section, name, values, inner)


def _validate_settings(settings: Any, path: Path) -> None:
    """What a preset sets outside of its component: keys of plain sections, parameters by name."""
    _require_mapping(settings, path, "sections")
    for section, values in settings.items():
        inner = (*path, section)
        _require_mapping(values, inner, "keys" if section in PLAIN_MODELS else "names")
        if section in PLAIN_MODELS:
            _validate_plain(section, values, inner)
        for name in values if section in presets.METHOD else ():
            _require_mapping(values[name], (*inner, name), "parameters")
            _accept_all(section, name, values[name], (*inner, name))


def _validate_plain(section: str, values: dict[str, Any], path: Path) -> None:
    if section == "optimizer" and "name" in values:
        raise Problem("presets: a preset sets no optimizer.name. Delete it.", (*path, "name"))
    try:
        model = PLAIN_MODELS[section].model_validate(values)
    except ValidationError as error:
        problem = problem_of(error, PLAIN_MODELS[section])
        raise Problem(f"presets: {section}.{problem}", *((*path, *part) for part in problem.paths)) from None
    values |= {key: value for key, value in model.model_dump(mode="json").items() if key in values}


def _accept_all(section: str, name: str, values: dict[str, Any], path: Path) -> None:
    for key in values:
        if not presets.brings(key):
            try:
                values[key] = accept(section, name, key, values[key])
            except Problem as problem:
                raise Problem(f"presets: {problem}", (*path, key)) from None


def _require_mapping(value: Any, path: Path, of: str) -> None:
    if not isinstance(value, dict):
        raise Problem(f"{'.'.join(path)} must be a mapping of {of}; got {show(value)}.", path)


@functools.cache
def defaults(section: str, name: str) -> Mapping[str, Any]:
    """Return the default of every parameter that has one."""
    known = signature(section, name).items()
    usual = {key: parameter.default for key, parameter in known if parameter.default is not parameter.empty}
    return {
        key: list(value) if isinstance(value, tuple) else accept(section, name, key, value)
        for key, value in usual.items()
    }


def _filled(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    name = values["name"]
    known = signature(section, name)
    filled: dict[str, Any] = {"name": name}
    for key in values:
        if key != "name" and key not in known:
            accept(section, name, key, values[key])
    usual = defaults(section, name)
    for key in known:
        if key in values:
            filled[key] = accept(section, name, key, values[key])
        elif key not in usual:
            message = f"{section} '{name}' needs {key}. Add '{key}: …' to {section}."
            raise Problem(message, (section, "name"), (section,))
        else:
            filled[key] = copy.copy(usual[key])
    return filled


def _kinds(annotation: Any) -> set[Any]:
    """The plain types an annotation allows: `Annotated[float, …] | None` → {float, NoneType}."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _kinds(typing.get_args(annotation)[0])
    options = typing.get_args(annotation)
    if options and typing.get_origin(annotation) is not typing.Literal:
        return set().union(*(_kinds(option) for option in options))
    return {annotation}


def _validate_data(tree: Mapping[str, Any]) -> None:
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return
    from dmltune.data import augment, catalog

    _require_known(("data", "name"), data.get("name"), catalog.names, "data set")
    _require_known(("data", "augment"), data.get("augment", "none"), augment.names, "augmentation")


def _require_known(path: Path, value: Any, names: Callable[[], typing.Iterable[str]], what: str) -> None:
    if isinstance(value, str) and value not in (known := tuple(names())):
        raise Problem(f"no {what} {show(value)}{near_or_list(value, known, 'there are')}", path, path[:1])
