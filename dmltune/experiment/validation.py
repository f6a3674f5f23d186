"""Validate a whole search space once, on loading, so that no trial fails for its settings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment import choosing
from dmltune.experiment import tree as trees
from dmltune.experiment.fidelity import Fidelity
from dmltune.experiment.model import Experiment, build, prepared
from dmltune.experiment.problems import Path, Problem, fields, one_line, unknown
from dmltune.experiment.schema import components
from dmltune.experiment.space.parameter import Parameter, parse_ranges
from dmltune.experiment.space.search_space import SearchSpace, lacking, ordered

RANDOM_POINTS = 1000
MAX_CHOICES_BUILT = 64
FIXED = ("data.name", "data.path", "data.classes", "data.missing")  # scores would not be comparable
BASELINE_KEYS = (*trees.SECTIONS, "max_steps", "validate_every", "patience")


def build_space(tree: Mapping[str, Any]) -> Experiment:
    """Build an experiment and validate its space in full; raises Problem."""
    experiment = build(lay_reference_point(tree)[0])
    validate_space(experiment)
    return experiment


def lay_reference_point(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tree with the values of the reference point as its own, and those values."""
    complete = prepared(tree)
    parameters = [each for name, spec in complete["search"].items() for each in parse_ranges(name, spec)]
    for parameter in parameters:
        _validate_key(parameter.name, complete)
    if not parameters:
        return complete, {}
    space = SearchSpace(ordered(parameters), (), {}, trees.flatten(complete))
    values = space.reference_values(complete["reference_point"], whole=False)
    laid = choosing.with_values(complete, values)
    active = space.active(values)
    for parameter in space.parameters:
        section, _, key = parameter.name.partition(".")
        unset = parameter.name in active and trees.lookup(laid, parameter.name) is trees.MISSING
        if unset and components.needs(section, laid.get(section), key):
            raise lacking(parameter)
    return laid, values


def validate_space(experiment: Experiment) -> None:
    """Require that each bound fits its component, trial 0 and the baseline can run, and points are left."""
    space = SearchSpace.build(experiment.to_dict())
    fixed = experiment.fixed().to_dict()
    for values, parameter in _corners(space):
        _validate_corner(fixed, values, parameter, space)
    if broken := space.violated(space.reference_point):
        subject = "the reference point breaks a rule: " if space else ""
        paths = ("reference_point",), ("require",), ("search",)
        raise Problem(f"{subject}{broken}. Change one of them.", *paths)
    if space and space.sample(random.Random(0), RANDOM_POINTS) is None:
        texts = " and ".join(map(str, space.require)) or "the rules of a batch"
        rule = f"none of {RANDOM_POINTS} random points inside the bounds satisfies {texts}"
        raise Problem(f"require: {rule}. Widen the bounds or drop a rule.", ("require",), ("search",))
    _validate_balanced(space)
    _validate_against(experiment)
    _validate_fidelity(experiment, space)
    _validate_baseline(experiment)


def _validate_against(experiment: Experiment) -> None:
    """Require that what decides about a front looks at more than the score."""
    if not experiment.objective.against:
        return
    path = ("objective", "against")
    if experiment.stop_at_noise:
        rule = "stop_at_noise looks at the best score alone, and objective.against at a front"
        raise Problem(f"{rule}. Use one of them.", ("stop_at_noise",), path)
    if experiment.sampler.name == "cmaes":
        rule = "sampler cmaes follows one value, and objective.against gives another for every trial"
        raise Problem(f"{rule}. Use auto, gp or tpe.", ("sampler",), path)


def _validate_fidelity(experiment: Experiment, space: SearchSpace) -> None:
    """Require that each bound can be trained at the lower fidelity, and that nothing contradicts it."""
    if not experiment.fidelity:
        return
    chosen = Fidelity.of(experiment.fidelity, experiment.max_steps, experiment.data.size)
    others = (("balanced", experiment.balanced), ("objective.against", experiment.objective.against))
    for name, value in others:
        if value:
            rule = f"fidelity chooses points by their cheap score alone, and {name} does not allow that"
            raise Problem(f"{rule}. Use one of them.", ("fidelity",), tuple(name.split(".")))
    if varied := next((key for key in chosen.settings if key in space.names), None):
        rule = f"{varied} is searched, so a fidelity cannot set it"
        raise Problem(f"{rule}. Drop one of them.", ("fidelity", varied), ("search", varied))
    for values in (space.reference_point, *(values for values, _ in _corners(space))):
        if space.violated(values):
            continue
        try:
            experiment.cheap_point(values)
        except UserError as error:
            path = next((("fidelity", key) for key in chosen.settings if key in str(error)), ("fidelity",))
            raise Problem(f"fidelity: {error}", path) from None


def _validate_balanced(space: SearchSpace) -> None:
    """Require that the first trial of each choice can run with its own settings."""
    for choice in space[space.balanced].choices if space.balanced else ():
        path = ("search", str(space.balanced))
        try:
            broken = space.violated(space.own_point(choice))
        except Problem as problem:
            raise Problem(f"the first trial of {choice}: {problem}", path, *problem.paths) from None
        if broken:
            raise Problem(f"the first trial of {choice} breaks a rule: {broken}", path)


def _validate_key(name: str, tree: Mapping[str, Any]) -> None:
    """Require that a key of `search` exists and may differ between trials."""
    path: Path = ("search", name)
    section, _, key = name.partition(".")
    if section not in trees.SECTIONS:
        if section in Experiment.model_fields:
            rule = f"{one_line(name)} cannot be searched: it is the same for all trials"
            raise Problem(f"{rule}. Fix it outside search.", path)
        options = [f"{part}.{field}" for part in trees.SECTIONS for field in _keys(part, tree)]
        raise Problem(f"search: {unknown(name, options)}", path)
    if not key:
        example = f"{section}.{_keys(section, tree)[0]}"
        raise Problem(f"search takes dotted keys, such as {example}; got {section}.", path)
    if name in FIXED or section == "objective":
        rule = f"{name} cannot be searched: scores would not be comparable"
        raise Problem(f"{rule}. Fix it outside search.", path)
    options = _keys(section, tree)
    if key not in options:
        named = trees.lookup(tree, f"{section}.name")
        where = f"{section} '{named}'" if section in trees.COMPONENTS and isinstance(named, str) else section
        message = unknown(key, options, where)
        remedy = "" if "did you mean" in message else f". Drop it with 'search.{name}=null'."
        raise Problem(f"search: {message}{remedy}", path)


def _keys(section: str, tree: Mapping[str, Any]) -> list[str]:
    """The keys of a section, for every name that it can have."""
    keys = fields(Experiment, (section,))
    if section in components.VALIDATED_TOGETHER:
        key = f"{section}.name"
        spec = tree["search"].get(key, ())
        ranges = parse_ranges(key, spec) if spec else ()
        varied = [choice for parameter in ranges for choice in parameter.choices]
        names = [(trees.lookup(tree, key), (section, "name")), *((name, ("search", key)) for name in varied)]
        for name, path in names:
            try:
                known = components.signature(section, name) if isinstance(name, str) else ()
            except Problem as problem:
                raise Problem(str(problem), path) from None
            keys += [key for key in known if key not in keys]
    return keys


def _corners(space: SearchSpace) -> Iterator[tuple[dict[str, Any], Parameter]]:
    """Yield a point for each end of each bound and for each choice, where its conditions hold."""
    for parameter in space.parameters:
        ends = parameter.choices[:MAX_CHOICES_BUILT] or (parameter.low, parameter.high)
        for end in ends:
            wanted = {parameter.name: end}
            _want(parameter, space, wanted)
            values: dict[str, Any] = {}
            applies = False
            for other in space.applicable(values):
                applies |= other is parameter
                first = other.choices[0] if other.kind == "choice" else other.low
                values[other.name] = wanted.get(other.name, space.reference_point.get(other.name, first))
            if applies:
                yield values, parameter


def _want(parameter: Parameter, space: SearchSpace, wanted: dict[str, Any]) -> None:
    """Add the values to `wanted` under which `parameter` applies."""
    for key, allowed in parameter.when.items():
        if key in space.names and key not in wanted:
            wanted[key] = allowed[0]
            _want(space[key], space, wanted)


def _validate_corner(
    fixed: Mapping[str, Any], values: dict[str, Any], parameter: Parameter, space: SearchSpace
) -> None:
    try:
        build(choosing.with_values(fixed, values), between_keys=False)
    except Problem as problem:
        text = str(problem)
        blamed = problem.paths[0] if problem.paths else ()
        name = ".".join(blamed)
        culprit = space[name] if name in space.names else parameter
        section = blamed[0] if blamed else ""
        if "unknown key" in text and f"{section}.name" in space.names and not culprit.when:
            text += f" Say for which name it applies: when: {{{section}.name: …}}."
        elif "whole number" in text and culprit.kind == "float":
            text = f"{culprit.name} is a whole number. Write int instead of float."
        elif culprit.name != name:
            text = f"{text.rstrip()} (with {culprit.name} = {values[culprit.name]})"
        raise Problem(f"search: {text}", ("search", culprit.name)) from None


def _validate_baseline(experiment: Experiment) -> None:
    for key in experiment.baseline:
        if key not in BASELINE_KEYS:
            known = unknown(key, BASELINE_KEYS, "baseline")
            raise Problem(known, ("baseline", key), ("baseline",))
    try:
        if experiment.baseline:
            build(choosing.merged(experiment.fixed().to_dict(), experiment.baseline))
    except Problem as problem:
        paths = [("baseline", *path) for path in problem.paths]
        raise Problem(f"baseline: {problem}", *paths, ("baseline",)) from None
