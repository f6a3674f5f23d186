"""Is a space fit to be searched? Asked once, on loading, so that no trial fails for its settings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Path, Problem, one_line, unknown
from dmltune.experiment.schema import components
from dmltune.experiment.schema.build import build, prepared
from dmltune.experiment.schema.model import Experiment
from dmltune.experiment.schema.sections import COMPONENTS
from dmltune.experiment.space.conditions import lacking, ordered
from dmltune.experiment.space.parameter import Parameter
from dmltune.experiment.space.search_space import SearchSpace

PROBES = 1000
MAX_CHOICES_BUILT = 64
BASELINE_KEYS = (*trees.SECTIONS, "max_steps", "validate_every", "patience")


def lay_reference_point(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tree with the reference point's values as its own (it is its own trial 0), and those values."""
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
        unset = parameter.name in active and trees.lookup(laid, parameter.name) is trees.MISSING
        if unset and components.needs(section, laid.get(section), key):
            raise lacking(parameter)
    return laid, values


def validate_space(experiment: Experiment) -> None:
    """Every bound fits its component, trial 0 and the baseline can run, `require` leaves something."""
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
            f"require: none of {PROBES} random points inside the bounds satisfies {texts}. "
            "Widen the bounds or drop a rule.",
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
    if name in ("data.name", "data.path", "data.classes") or section == "objective":
        raise Problem(
            f"{name} cannot be searched: scores would not be comparable. Fix it outside search.", path
        )
    options = _keys(section, tree)
    if key not in options:
        named = trees.lookup(tree, f"{section}.name")
        where = f"{section} '{named}'" if section in COMPONENTS and isinstance(named, str) else section
        said = unknown(key, options, where)
        remedy = "" if "did you mean" in said else f". Drop it with 'search.{name}=null'."
        raise Problem(f"search: {said}{remedy}", path)


def _keys(section: str, tree: Mapping[str, Any]) -> list[str]:
    """What a section may hold, for every name it can have."""
    model = Experiment.model_fields[section].annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    keys = list(model.model_fields)
    if section in COMPONENTS and section != "backbone":
        for name, path in _names(section, tree):
            try:
                known = components.signature(section, name)
            except Problem as problem:
                raise Problem(str(problem), path) from None
            keys += [key for key in known if key not in keys]
    return keys


def _names(section: str, tree: Mapping[str, Any]) -> list[tuple[str, Path]]:
    """The names a component has or may get in the search, and where each is written."""
    key = f"{section}.name"
    own = [(trees.lookup(tree, key), (section, "name"))]
    searched = [(name, ("search", key, "choice")) for name in tree["search"].get(key, {}).get("choice", ())]
    return [(name, path) for name, path in [*own, *searched] if isinstance(name, str)]


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
        guilty = space[name] if name in space.names else parameter
        section = blamed[0] if blamed else ""
        if "unknown key" in text and f"{section}.name" in space.names and not guilty.when:
            text += f" Say for which name it applies: when: {{{section}.name: …}}."
        elif "whole number" in text and guilty.kind == "float":
            text = f"{guilty.name} is a whole number. Write int instead of float."
        elif guilty.name != name:
            text = f"{text.rstrip()} (with {guilty.name} = {values[guilty.name]})"
        path: Path = ("search", guilty.name)
        raise Problem(f"search: {text}", (*path, guilty.kind), path) from None


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
