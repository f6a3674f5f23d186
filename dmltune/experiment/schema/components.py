"""A component's parameters against its signature in dmltune.core: types, ranges, defaults."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from dmltune.errors import UserError, nearest
from dmltune.experiment.problems import Path, Problem, near_or_list, number_remedy, show, unknown
from dmltune.experiment.schema.sections import COMPONENTS

_TINY = {"num_classes": 2, "dim": 2, "channels": 2, "in_channels": 2}
_OFTEN = 1024
CHECKED_TOGETHER = ("pooling", "loss", "references", "transform")
PACKAGES = {
    "backbone": "backbones",
    "pooling": "poolings",
    "loss": "losses",
    "references": "references",
    "transform": "transforms",
}


def complete(tree: dict[str, Any]) -> None:
    """Check every component of `tree` and fill in what is left open, in place: from the space's presets, then
    from the component's own defaults.
    """
    _check_data(tree)
    presets = _checked_presets(tree.setdefault("presets", {}))
    for section in COMPONENTS:
        value = tree.get(section)
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            if section == "backbone":
                find(section, value["name"])
            else:
                tree[section] = _filled(section, {**presets.get(section, {}).get(value["name"], {}), **value})


def find(section: str, name: str) -> type:
    """The class behind a component's name, or a Problem with the nearest name."""
    from dmltune.core import components

    try:
        return components.find(PACKAGES[section], name)
    except UserError as error:
        raise Problem(str(error), (section, "name"), (section,)) from None


def signature(section: str, name: str) -> dict[str, inspect.Parameter]:
    """The tunable parameters by their YAML names."""
    from dmltune.core import components

    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = components.parameters(find(section, name))
    return {key: parameter for key, parameter in known.items() if parameter.kind not in loose}


def accept(section: str, name: str, key: str, value: Any, *paths: Path) -> Any:
    """The value of one parameter in its declared type, or a Problem that says rule, value and remedy."""
    from dmltune.core import components

    paths = paths or ((section, key),)
    known = signature(section, name)
    if key not in known:
        where = section if nearest(key, known) else f"{section} '{name}'"
        raise Problem(unknown(key, known, where), *paths)
    wrong = components.violation(known[key], value)
    kinds = _kinds(known[key].annotation)
    if wrong:
        remedy = (
            "" if bool in kinds else number_remedy(value, float not in kinds) if kinds & {int, float} else ""
        )
        raise Problem(f"{section}.{key} {wrong.rstrip('.')}.{remedy}", *paths)
    if isinstance(value, int) and not isinstance(value, bool) and float in kinds and int not in kinds:
        return float(value)
    return value


def gives_attributes(pooling: type) -> bool:
    from dmltune.core.poolings import Pooling

    assert issubclass(pooling, Pooling)
    return pooling.with_attributes is not Pooling.with_attributes


def needs(section: str, values: Any, key: str) -> bool:
    """Whether the component has this parameter and no default for it."""
    if section not in CHECKED_TOGETHER or not (
        isinstance(values, Mapping) and isinstance(values.get("name"), str)
    ):
        return False
    parameter = signature(section, values["name"]).get(key)
    return parameter is not None and parameter.default is inspect.Parameter.empty


def refused(section: str, values: Mapping[str, Any], dim: int | None) -> str | None:
    """Why a component does not take these values together, asked of the component itself, or None.

    Only a pooling gets the real number of dimensions: it may have to divide it, and is small. Without a
    number they are the backbone's channels, which nobody knows yet.
    """
    import torch

    from dmltune.core import components

    chosen = {key: value for key, value in values.items() if key != "name"}
    with torch.random.fork_rng(devices=[]):
        try:
            given = {**_TINY, "channels": dim or _OFTEN, "class_counts": torch.tensor([0, 2**40])}
            components.build(PACKAGES[section], values["name"], given, chosen)
        except UserError as error:
            return f"{section} '{values['name']}': {error}"
    return None


def _checked_presets(presets: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """`presets: {loss: {triplet: {margin: 0.1}}}`: every name and value is one its component takes."""
    if not isinstance(presets, dict):
        raise Problem(f"presets must be a mapping of sections; got {show(presets)}.", ("presets",))
    for section, names in presets.items():
        if section not in CHECKED_TOGETHER:
            raise Problem(unknown(section, CHECKED_TOGETHER, "presets"), ("presets", section))
        for name, values in names.items() if isinstance(names, dict) else ():
            if not isinstance(values, dict):
                break
            for key, value in values.items():
                try:
                    values[key] = accept(section, name, key, value)
                except Problem as problem:
                    raise Problem(f"presets: {problem}", ("presets", section, name, key)) from None
    return presets


def _filled(section: str, values: Mapping[str, Any]) -> dict[str, Any]:
    name = values["name"]
    known = signature(section, name)
    filled: dict[str, Any] = {"name": name}
    for key, value in values.items():
        if key != "name":
            accept(section, name, key, value)
    for key, parameter in known.items():
        if key in values:
            filled[key] = accept(section, name, key, values[key])
        elif parameter.default is inspect.Parameter.empty:
            raise Problem(
                f"{section} '{name}' needs {key}. Add '{key}: …' to {section}.", (section, "name"), (section,)
            )
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


def _check_data(tree: Mapping[str, Any]) -> None:
    data = tree.get("data")
    if not isinstance(data, Mapping):
        return
    from dmltune.data import catalog

    _one_of(("data", "name"), data.get("name"), catalog.names, "data set")
    _one_of(("data", "augment"), data.get("augment", "none"), _augmentations, "augmentation")


def _augmentations() -> tuple[str, ...]:
    from dmltune.data import augment

    return tuple(augment.names())


def _one_of(path: Path, value: Any, names: Callable[[], tuple[str, ...]], what: str) -> None:
    if isinstance(value, str) and value not in names():
        raise Problem(f"no {what} {show(value)}{near_or_list(value, names(), 'there are')}", path, path[:1])
