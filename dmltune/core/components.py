"""A component is found by its file name: `losses/contrastive.py` holds the class `Contrastive`. There
is no registry.

A slash name `timm/resnet18` is file `from_timm.py`, class `FromTimm`, which is given what follows the
slash as `model`; a file with a function `component(model) -> type` answers with a class for each model
instead (`pml/CircleLoss`). The signature of the class is its schema: names, types, ranges (`Annotated[float,
Range(0, 1)]`) and defaults.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import pkgutil
import types
import typing
from dataclasses import dataclass
from typing import Any

from dmltune.errors import UserError, nearest

GIVEN = frozenset({"num_classes", "class_counts", "dim", "channels", "in_channels", "model"})
"""What the caller gives a component; everything else in its signature is tunable."""


@dataclass(frozen=True)
class Range:
    """The interval a number must lie in; `None` is unbounded, `low_open` and `high_open` exclude the
    bound.
    """

    low: float | None
    high: float | None
    low_open: bool = False
    high_open: bool = False

    def contains(self, value: float) -> bool:
        if math.isnan(value):
            return False
        above = self.low is None or value > self.low or (value == self.low and not self.low_open)
        below = self.high is None or value < self.high or (value == self.high and not self.high_open)
        return above and below

    def __str__(self) -> str:
        low = "" if self.low is None else f"above {self.low:g}" if self.low_open else f"at least {self.low:g}"
        high = (
            ""
            if self.high is None
            else f"below {self.high:g}"
            if self.high_open
            else f"at most {self.high:g}"
        )
        return " and ".join(part for part in (low, high) if part) or "any number"


def names(package_name: str) -> tuple[str, ...]:
    """The components of a package in alphabetical order, without importing any of them."""
    spec = importlib.util.find_spec(_full(package_name))
    if spec is None or spec.submodule_search_locations is None:
        raise ValueError(f"{package_name} is not a package")
    found = (module.name for module in pkgutil.iter_modules(spec.submodule_search_locations))
    return tuple(sorted(name for name in found if not name.startswith(("_", "from_"))))


def find(package_name: str, name: str) -> type:
    """The class of the component `name`; a UserError with the nearest name when there is none."""
    family, slash, model = name.partition("/")
    module_name = f"from_{family}" if slash else name
    known = names(package_name)
    full_name = f"{_full(package_name)}.{module_name}"
    is_component = slash or name in known
    if not (is_component and module_name.isidentifier() and importlib.util.find_spec(full_name)):
        kind = package_name.rpartition(".")[2]
        hint = nearest(name, known) or f"; there are {', '.join(known)}"
        raise UserError(f"no '{name}' in {kind}{hint}")
    module = importlib.import_module(full_name)
    by_model = getattr(module, "component", None) if slash else None
    component = by_model(model) if by_model else getattr(module, _camel_case(module_name))
    assert isinstance(component, type)
    return component


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The tunable parameters by the name they have in YAML, annotations resolved."""
    yaml_names = {argument: yaml for yaml, argument in _yaml_names(cls).items()}
    signature = inspect.signature(cls, eval_str=True)
    return {yaml_names.get(name, name): p for name, p in signature.parameters.items() if name not in GIVEN}


def range_of(parameter: inspect.Parameter) -> Range | None:
    """The `Range` in the annotation of a parameter, if it has one."""
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return next((part for part in metadata if isinstance(part, Range)), None)


def violation(parameter: inspect.Parameter, value: Any) -> str | None:
    """What is wrong with `value` for this parameter ("must be at least 0; got -1"), or None."""
    annotation = parameter.annotation
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if not _fits(annotation, value):
        return f"must be {_described(annotation)}; got {value!r}"
    limits = range_of(parameter)
    if limits and isinstance(value, int | float) and not limits.contains(value):
        return f"must be {limits}; got {value!r}"
    return None


def build(package_name: str, component_name: str, given: dict[str, Any], chosen: dict[str, Any]) -> Any:
    """An instance. `given` values the component does not ask for are left out; `chosen` ones are all
    checked.
    """
    cls = find(package_name, component_name)
    known, arguments = parameters(cls), _yaml_names(cls)
    argument_to_yaml = {argument: yaml for yaml, argument in arguments.items()}
    values: dict[str, Any] = {}
    for name, value in chosen.items():
        yaml = argument_to_yaml.get(name, name)
        if yaml not in known:
            raise UserError(f"unknown parameter '{name}' in {component_name}{nearest(name, known)}")
        if problem := violation(known[yaml], value):
            raise UserError(f"{component_name}: {yaml} {problem}")
        values[arguments.get(yaml, yaml)] = value
    wanted = inspect.signature(cls).parameters
    for name, value in {**given, "model": component_name.partition("/")[2]}.items():
        if name in wanted:
            if value is None:
                raise ValueError(f"{component_name} needs {name}")
            values[name] = value
    return cls(**values)


def _full(package_name: str) -> str:
    return package_name if "." in package_name else f"dmltune.core.{package_name}"


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _yaml_names(cls: type) -> dict[str, str]:
    return dict(getattr(cls, "yaml_names", {}))


def _fits(annotation: Any, value: Any) -> bool:
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or annotation is inspect.Parameter.empty:
        return True
    if origin is typing.Literal:
        return value in options
    if origin in (typing.Union, types.UnionType):
        return any(_fits(option, value) for option in options)
    if annotation is None or annotation is type(None):
        return value is None
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or annotation)


def _described(annotation: Any) -> str:
    options = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return "one of " + ", ".join(map(str, options))
    if options:
        distinct = [option for option in options if not (option is int and float in options)]
        return " or ".join(_described(option) for option in distinct)
    words = {
        float: "a number",
        int: "a whole number",
        bool: "true or false",
        str: "a text",
        type(None): "null",
    }
    return words.get(annotation, str(annotation))
