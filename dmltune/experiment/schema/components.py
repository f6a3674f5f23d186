"""Validate a component's parameters against the signature of its class: types, ranges, defaults."""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any

from dmltune.core import components
from dmltune.errors import UserError, nearest
from dmltune.experiment.problems import Path, Problem, near_or_list, number_remedy, one_line, show, unknown
from dmltune.experiment.tree import COMPONENTS, SEARCH_COMPONENTS

_TINY = {"num_classes": 2, "dim": 2, "channels": 2, "in_channels": 2}
_USUAL_CHANNELS = 1024
_MAX_BUILT = 2**26  # elements: 256 MiB of float32
_MAX_ELEMENTS = 2**28  # for two classes in two dimensions
VALIDATED_TOGETHER = ("pooling", "loss", "references", "transform")
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
    presets = tree.setdefault("presets", {})
    _validate_presets(presets)
    for section in (*COMPONENTS, *SEARCH_COMPONENTS):
        value = tree.get(section)
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            if section == "backbone":
                find(section, value["name"])
            else:
                tree[section] = _filled(section, {**presets.get(section, {}).get(value["name"], {}), **value})


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


def _validate_presets(presets: Any) -> None:
    """`presets: {loss: {triplet: {margin: 0.1}}}`: every name and value is one that its component takes."""
    _require_mapping(presets, ("presets",), "sections")
    for section, names in presets.items():
        if section not in VALIDATED_TOGETHER:
            raise Problem(unknown(section, VALIDATED_TOGETHER, "presets"), ("presets", section))
        _require_mapping(names, ("presets", section), "names")
        for name, values in names.items():
            _require_mapping(values, ("presets", section, name), "parameters")
            for key, value in values.items():
                try:
                    values[key] = accept(section, name, key, value)
                except Problem as problem:
                    raise Problem(f"presets: {problem}", ("presets", section, name, key)) from None


def _require_mapping(value: Any, path: Path, of: str) -> None:
    if not isinstance(value, dict):
        raise Problem(f"{'.'.join(path)} must be a mapping of {of}; got {show(value)}.", path)


def _filled(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    name = values["name"]
    known = signature(section, name)
    filled: dict[str, Any] = {"name": name}
    for key in values:
        if key != "name" and key not in known:
            accept(section, name, key, values[key])
    for key, parameter in known.items():
        if key in values:
            filled[key] = accept(section, name, key, values[key])
        elif parameter.default is inspect.Parameter.empty:
            message = f"{section} '{name}' needs {key}. Add '{key}: …' to {section}."
            raise Problem(message, (section, "name"), (section,))
        else:
            default = parameter.default
            filled[key] = list(default) if isinstance(default, tuple) else accept(section, name, key, default)
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
