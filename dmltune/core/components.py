"""Components are found by file name: `losses/contrastive.py` holds the class `Contrastive`. No registry.

The slash name `timm/resnet18` is the file `from_timm.py` and its class `FromTimm`, which gets the text after
the slash as `model`. If that file has a function `component(model) -> type`, it returns the class instead
(`pml/CircleLoss`). The signature of the class is its schema: names, types, defaults and ranges by the
constraints of annotated_types, such as `Annotated[float, Ge(0)]`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import keyword
import operator
import pkgutil
import types
import typing
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Lt

from dmltune.errors import UserError, nearest

GIVEN = frozenset({"num_classes", "class_counts", "dim", "channels", "in_channels", "model"})
"""Arguments that the caller of a component supplies; all others in its signature are tunable."""
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "ge": ("at least", operator.ge),
    "gt": ("above", operator.gt),
    "le": ("at most", operator.le),
    "lt": ("below", operator.lt),
}
_NAMES = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "null"}


def names(package_name: str) -> tuple[str, ...]:
    """Return the components of a package in alphabetical order, without importing any of them."""
    spec = importlib.util.find_spec(_full(package_name))
    if spec is None or spec.submodule_search_locations is None:
        raise ValueError(f"{package_name} is not a package")
    modules = (module.name for module in pkgutil.iter_modules(spec.submodule_search_locations))
    return tuple(sorted(name for name in modules if not name.startswith(("_", "from_"))))


def find(package_name: str, name: str) -> type:
    """Return the class of the component `name`; a UserError with the nearest name if there is none."""
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
    """Return the tunable parameters by their names in YAML, with resolved annotations."""
    yaml_names = {argument: yaml for yaml, argument in getattr(cls, "yaml_names", {}).items()}
    signature = inspect.signature(cls, eval_str=True)
    return {yaml_names.get(name, name): p for name, p in signature.parameters.items() if name not in GIVEN}


def range_of(parameter: inspect.Parameter) -> Interval | None:
    """Return the bounds in the annotation of a parameter, if it has any."""
    bounds: dict[str, Any] = {}
    for constraint in _constraints(parameter.annotation):
        for bound in constraint if isinstance(constraint, GroupedMetadata) else (constraint,):
            if isinstance(bound, Ge | Gt | Le | Lt):
                bounds |= asdict(bound)
    return Interval(**bounds) if bounds else None


def contains(limits: Interval, value: Any) -> bool:
    """Return whether a number lies within the bounds; NaN does not."""
    return all(holds(value, bound) for _, holds, bound in _bounds(limits))


def range_text(limits: Interval) -> str:
    """Return the bounds for people, such as "above 0 and at most 1"."""
    return " and ".join(f"{text} {bound:g}" for text, _, bound in _bounds(limits))


def _bounds(limits: Interval) -> list[tuple[str, Callable[[Any, Any], bool], Any]]:
    known = [(text, holds, getattr(limits, key)) for key, (text, holds) in _BOUNDS.items()]
    return [bound for bound in known if bound[2] is not None]


def violation(parameter: inspect.Parameter, value: Any) -> str | None:
    """Return why `value` is not valid for this parameter ("must be at least 0; got -1"), or None."""
    if not _fits(parameter.annotation, value):
        return f"must be {_described(parameter.annotation)}; got {value!r}"
    limits = range_of(parameter)
    if limits and isinstance(value, int | float) and not contains(limits, value):
        return f"must be {range_text(limits)}; got {value!r}"
    return None


def build(package_name: str, component_name: str, given: dict[str, Any], chosen: dict[str, Any]) -> Any:
    """Return an instance with the `given` values that it takes and all `chosen` ones, validated."""
    cls = find(package_name, component_name)
    known, arguments = parameters(cls), getattr(cls, "yaml_names", {})
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


def build_module(
    package_name: str, component_name: str, given: dict[str, Any], chosen: dict[str, Any]
) -> Any:
    """`build` for a torch module: its weights are float32, whatever torch's default type is."""
    import torch

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        return build(package_name, component_name, given, chosen)
    finally:
        torch.set_default_dtype(default)


def _full(package_name: str) -> str:
    return package_name if "." in package_name else f"dmltune.core.{package_name}"


def _camel_case(name: str) -> str:
    camel = "".join(part.capitalize() for part in name.split("_"))
    return f"{camel}_" if keyword.iskeyword(camel) else camel  # `none` is None_


def _constraints(annotation: Any) -> list[Any]:
    """Return the metadata of `Annotated` in an annotation and in the members of a union."""
    own = list(getattr(annotation, "__metadata__", ()))
    if typing.get_origin(annotation) is typing.Literal:
        return own
    return own + [part for option in typing.get_args(annotation) for part in _constraints(option)]


def _fits(annotation: Any, value: Any) -> bool:
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _fits(options[0], value)
    if annotation is Any or annotation is inspect.Parameter.empty:
        return True
    if origin is typing.Literal:
        return value in options
    if origin in (typing.Union, types.UnionType):
        return any(_fits(option, value) for option in options)
    if annotation in (float, int):
        return isinstance(value, int | annotation) and not isinstance(value, bool)
    return isinstance(value, type(None) if annotation is None else origin or annotation)


def _described(annotation: Any) -> str:
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _described(options[0])
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, options))
    if options:
        distinct = [option for option in options if not (option is int and float in options)]
        return " or ".join(_described(option) for option in distinct)
    return _NAMES.get(annotation, str(annotation))
