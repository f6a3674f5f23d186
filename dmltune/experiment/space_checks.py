"""Is a search space fit to be searched? Asked once, when a file is loaded, so that no trial fails for its settings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from dmltune.experiment import components
from dmltune.experiment import tree as trees
from dmltune.experiment.build import build, prepared
from dmltune.experiment.conditions import lacking, ordered
from dmltune.experiment.model import Experiment
from dmltune.experiment.parameter import Parameter
from dmltune.experiment.sections import COMPONENTS
from dmltune.experiment.space import SearchSpace
from dmltune.experiment.wording import Path, Problem, one_line, unknown

PROBES = 1000
MAX_CHOICES_BUILT = 64
BASELINE_KEYS = (*trees.SECTIONS, "max_steps", "validate_every", "patience")


def lay_reference_point(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tree with the reference point's values as its own, and those values: an experiment is its own trial 0."""
    complete = prepared(tree)
    parameters = [Parameter.parse(name, spec) for name, spec in complete["search"].items()]
    for parameter in parameters:
        _check_key(parameter.name, complete)
    if not parameters:
        return complete, {}
    space = SearchSpace(ordered(parameters), (), {}, trees.flatten(complete))
    values = space.reference_values(complete["reference_point"], whole=False)
    laid = trees.with_values(complete, values)
    active = space.active(values)
    for parameter in space.parameters:
        section, _, key = parameter.name.partition(".")
        if parameter.name in active and trees.lookup(laid, parameter.name) is trees.MISSING:
            if section in components.CHECKED_TOGETHER and components.needs(section, laid[section], key):
                raise lacking(parameter)
    return laid, values


def check_search(experiment: Experiment) -> None:
    """Every bound fits its component, trial 0 and the baseline can run, and `require` leaves something to search."""
    space = SearchSpace.build(experiment.to_dict())
    for values, parameter in _corners(space):
        _check_corner(experiment, values, parameter, space)
    broken = space.violated(space.reference_point)
    if broken:
        what = "the reference point breaks a rule: " if space else ""
        raise Problem(f"{what}{broken}. Change one of them.", ("reference_point",), ("require",), ("search",))
    if space and space.sample(random.Random(0), PROBES) is None:
        texts = " and ".join(map(str, space.require)) or "the rules of a batch"
        raise Problem(
            f"require: none of {PROBES} random points inside the bounds satisfies {texts}. Widen the bounds or drop a rule.",
            ("require",),
            ("search",),
        )
    _check_baseline(experiment)


def _check_key(name: str, tree: Mapping[str, Any]) -> None:
    """The searched key exists and may differ between trials."""
    path: Path = ("search", name)
    section, _, key = name.partition(".")
    if section not in trees.SECTIONS:
        if section in Experiment.model_fields:
            raise Problem(
                f"{one_line(name)} cannot be searched: it is the same for all trials. Fix it outside search.",
                path,
            )
        options = [f"{part}.{field}" for part in trees.SECTIONS for field in _keys(part, tree)]
        raise Problem(f"search: {unknown(name, options)}", path)
    if not key:
        raise Problem(
            f"search takes dotted keys, such as {section}.{_keys(section, tree)[0]}; got {section}.", path
        )
    if name == "data.name" or section == "objective":
        raise Problem(
            f"{name} cannot be searched: scores would not be comparable. Fix it outside search.", path
        )
    options = _keys(section, tree)
    if key not in options:
        named = (
            tree[section].get("name")
            if section in COMPONENTS and isinstance(tree.get(section), Mapping)
            else None
        )
        where = f"{section} '{named}'" if named else section
        remedy = f" Drop it with 'search.{name}=null'."
        raise Problem(
            f"search: {unknown(key, options, where)}{'' if 'did you mean' in unknown(key, options) else remedy}",
            path,
        )


def _keys(section: str, tree: Mapping[str, Any]) -> list[str]:
    """What a section may hold, for every name it can have."""
    model = Experiment.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    keys = list(model.model_fields)
    if section in COMPONENTS and section != "backbone":
        value = tree.get(section)
        names = [value.get("name")] if isinstance(value, Mapping) else []
        spec = tree["search"].get(f"{section}.name", {})
        for name in [*names, *spec.get("choice", ())]:
            if isinstance(name, str):
                keys += [key for key in components.signature(section, name) if key not in keys]
    return keys


def _corners(space: SearchSpace) -> Iterator[tuple[dict[str, Any], Parameter]]:
    """For each end of each bound and each choice, a point where it applies."""
    for parameter in space.parameters:
        ends = parameter.choices[:MAX_CHOICES_BUILT] or (parameter.low, parameter.high)
        for end in ends:
            wanted = {parameter.name: end}
            _want(parameter, space, wanted)
            values: dict[str, Any] = {}
            active: list[str] = []
            for other in space.parameters:
                if space.applies(other, values, active):
                    active.append(other.name)
                    first = other.choices[0] if other.kind == "choice" else other.low
                    values[other.name] = wanted.get(other.name, space.reference_point.get(other.name, first))
            if parameter.name in values:
                yield values, parameter


def _want(parameter: Parameter, space: SearchSpace, wanted: dict[str, Any]) -> None:
    """Add to `wanted` what makes `parameter` apply."""
    for key, allowed in parameter.when.items():
        if key in space.names and key not in wanted:
            wanted[key] = allowed[0]
            _want(space[key], space, wanted)


def _check_corner(
    experiment: Experiment, values: dict[str, Any], parameter: Parameter, space: SearchSpace
) -> None:
    tree = trees.with_values(experiment.fixed().to_dict(), values)
    try:
        build(tree, between_keys=False)
    except Problem as problem:
        text = str(problem)
        blamed = problem.paths[0] if problem.paths else ()
        name = ".".join(blamed)
        path: Path = ("search", name if name in space.names else parameter.name)
        section = blamed[0] if blamed else ""
        if (
            f"{section}.name" in space.names
            and name in space.names
            and not space[name].when
            and "unknown key" in text
        ):
            text += f" Say for which name it applies: when: {{{section}.name: …}}."
        elif "whole number" in text and parameter.kind == "float":
            text = f"{parameter.name} is a whole number. Write int instead of float."
        elif name != parameter.name:
            text = f"{text.rstrip()} (with {parameter.name} = {values[parameter.name]})"
        raise Problem(f"search: {text}", (*path, parameter.kind), path) from None


def _check_baseline(experiment: Experiment) -> None:
    for key in experiment.baseline:
        if key not in BASELINE_KEYS:
            known = unknown(key, BASELINE_KEYS, "baseline")
            raise Problem(known, ("baseline", key), ("baseline",))
    if not experiment.baseline:
        return
    try:
        build(trees.merged(experiment.fixed().to_dict(), experiment.baseline))
    except Problem as problem:
        paths = [("baseline", *path) for path in problem.paths]
        raise Problem(f"baseline: {problem}", *paths, ("baseline",)) from None
