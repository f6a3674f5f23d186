"""SearchSpace: the keys that vary in an experiment, and the points that its rules allow."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Problem, near_or_list, one_line, show
from dmltune.experiment.schema import components, presets, rules, sections
from dmltune.experiment.schema.presets import Presets
from dmltune.experiment.space.expression import Expression, ExpressionError, compile_expression
from dmltune.experiment.space.parameter import Parameter, parse_ranges, same

NOT_OF_A_RUN = (
    *("search", "require", "reference_point", "baseline", "balanced"),
    *("fidelity", "presets", "sampler", "scheduler"),
)


@dataclass(frozen=True)
class SearchSpace:
    """`parameters` in an order in which a key comes after those of its `when`; `fixed` has all other keys.

    Several parameters may have one name; at most one of them applies to a point. Trials are shared equally
    among the choices of the key `balanced`.
    """

    parameters: tuple[Parameter, ...] = ()
    require: tuple[Expression, ...] = ()
    reference_point: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    presets: Presets = field(default_factory=dict)
    balanced: str | None = None

    @staticmethod
    def build(tree: Mapping[str, Any]) -> SearchSpace:
        """Return the space of a complete experiment tree; a Problem names the key that is wrong."""
        flat = trees.flatten(tree)
        fixed = {key: value for key, value in flat.items() if key.split(".")[0] not in NOT_OF_A_RUN}
        ranges = [each for name, spec in tree["search"].items() for each in parse_ranges(name, spec)]
        parameters = ordered(ranges)
        known = {*fixed, *(parameter.name for parameter in parameters)}
        for parameter in parameters:
            for key in parameter.when:
                if key not in known:
                    message = f"unknown key '{one_line(key)}'{near_or_list(key, known, 'known keys')}"
                    raise Problem(f"search.{parameter.name}.when: {message}", ("search", parameter.name))
        require, balanced = compiled(tree["require"], known), tree["balanced"]
        space = SearchSpace(parameters, require, {}, fixed, tree["presets"], balanced)
        if balanced is not None and (space[balanced].kind != "choice" or space[balanced].when):
            message = f"balanced needs a key with choices and without 'when'; got {balanced}. Delete it."
            raise Problem(message, ("balanced",))
        return replace(space, reference_point=space.reference_values(tree["reference_point"]))

    def __bool__(self) -> bool:
        return bool(self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(parameter.name for parameter in self.parameters))

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise Problem(f"'{one_line(str(name))}' is not searched{near_or_list(name, self.names, 'searched')}")

    def active(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names that apply, in order: `values` or the experiment meet each `when`."""
        return tuple(parameter.name for parameter in self.applicable(values))

    def applicable(self, values: Mapping[str, Any]) -> Iterator[Parameter]:
        """Yield the parameters that apply, in order; the caller may add their values on the way."""
        active: set[str] = set()
        for parameter in self.parameters:
            if all(self._holds(key, allowed, values, active) for key, allowed in parameter.when.items()):
                active.add(parameter.name)
                yield parameter

    def _holds(self, key: str, allowed: tuple[Any, ...], values: Mapping[str, Any], active: set[str]) -> bool:
        value = values.get(key, self.fixed.get(key, trees.MISSING))
        return (key in active or key not in self.names) and any(same(value, option) for option in allowed)

    def violated(self, values: Mapping[str, Any]) -> str | None:
        """Return the first rule that the experiment with `values` breaks, `require` or any other, or None."""
        view = self.view(values)
        active = self.active(values)
        if broken := self.broken_requirement(view, active):
            return broken
        try:
            rules.validate_values(view)
        except Problem as problem:
            return str(problem)
        varied = {name.split(".")[0] for name in active}
        for section in components.VALIDATED_TOGETHER:
            if section in varied or (section == "pooling" and "embedding" in varied):
                start = f"{section}."
                own = {key.removeprefix(start): view[key] for key in view if key.startswith(start)}
                if reason := components.refused(section, own, view["embedding.dim"]):
                    return reason
        return None

    def broken_requirement(self, view: Mapping[str, Any], active: Collection[str]) -> str | None:
        """Return the first rule of `require` that these values break, or None."""
        inactive = set(self.names).difference(active)
        for expression in self.require:
            if any(name not in view or name in inactive for name in expression.names):
                continue  # a key of the rule does not apply to this point
            try:
                if not expression.holds(view):
                    given = ", ".join(f"{name} = {show(view[name])}" for name in expression.names)
                    return f"require: {expression.text} does not hold for {given}"
            except ExpressionError as error:
                return one_line(f"require: {error}")
        return None

    def view(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every dotted key of the experiment with `values`; a new name replaces the old parameters."""
        names = {section: self.fixed.get(f"{section}.name", "") for section in trees.COMPONENTS}
        changed = {
            section: str(values[f"{section}.name"])
            for section, name in names.items()
            if values.get(f"{section}.name", name) != name
        }
        if not changed:
            return {**self.fixed, **values}
        names |= changed
        old = tuple(f"{section}." for section in changed)
        view = {key: value for key, value in self.fixed.items() if not key.startswith(old)}
        for section, name in changed.items():
            own = presets.own(self.presets, names, section)
            usual = components.defaults(section, name) if section in presets.METHOD else _BACKBONE
            view |= {f"{section}.{key}": value for key, value in {**usual, **own, "name": name}.items()}
        return {**view, **presets.brought(self.presets, names), **values}

    def validate_point(self, values: Mapping[str, Any]) -> None:
        """Require values in their bounds for the active keys, and for no others, that break no rule."""
        for name in values:
            self[name]
        active = {parameter.name: parameter for parameter in self.applicable(values)}
        for name, parameter in active.items():
            if name not in values:
                raise Problem(f"a trial needs a value for '{name}'; got {show(dict(values))}")
            parameter.accept(values[name], "the value of")
        for name in values:
            if name not in active:
                raise Problem(f"'{name}' does not apply here: it needs {self.needed(name)}. Leave it out.")
        if broken := self.violated(values):
            raise Problem(broken)

    def sample(self, random_numbers: random.Random, tries: int = 1000) -> dict[str, Any] | None:
        """Draw a random point that breaks no rule; None when all of `tries` points do."""
        for _ in range(tries):
            values = self.draw(random_numbers)
            if self.violated(values) is None:
                return values
        return None

    def draw(self, random_numbers: random.Random) -> dict[str, Any]:
        """Draw a random point, without regard to the rules."""
        values: dict[str, Any] = {}
        for parameter in self.applicable(values):
            values[parameter.name] = parameter.sample(random_numbers)
        return values

    def reference_values(self, given: Mapping[str, Any], whole: bool = True) -> dict[str, Any]:
        """Return the reference point: `given` and, if `whole`, the experiment's own values for the rest."""
        for name in given:
            if name not in self.names:
                near = near_or_list(name, self.names, "searched are")
                message = f"'{one_line(name)}' is not searched{near}"
                raise Problem(f"reference_point: {message}", ("reference_point", name))
        values: dict[str, Any] = {}
        inapplicable = dict.fromkeys(given)
        for parameter in self.applicable(values):
            name = parameter.name
            inapplicable.pop(name, None)
            if name in given:
                path = ("reference_point", name)
                values[name] = parameter.accept(given[name], "reference_point:", path, ("search", name))
            elif whole and name not in self.fixed:
                raise lacking(parameter)
            elif whole:
                values[name] = _own_value(parameter, self.fixed[name])
        known = {*self.fixed, *self.names}
        for name in inapplicable:
            conditions = {
                key for parameter in self.parameters if parameter.name == name for key in parameter.when
            }
            if whole or known.issuperset(conditions):  # a default that is not filled in yet may meet it
                message = f"reference_point: {name} needs {self.needed(name)}. Delete it."
                raise Problem(message, ("reference_point", name))
        return values

    def own_point(self, choice: Any) -> dict[str, Any]:
        """Return the reference point with another choice of the balanced key, and its own settings."""
        assert self.balanced is not None
        view = self.view({self.balanced: choice})
        values: dict[str, Any] = {}
        for parameter in self.applicable(values):
            name = parameter.name
            if name == self.balanced:
                values[name] = choice
            elif name in self.reference_point and self.balanced not in parameter.when:
                values[name] = self.reference_point[name]
            elif name in view:
                values[name] = _own_value(parameter, view[name])
            else:
                raise lacking(parameter)
        return values

    def needed(self, name: str) -> str:
        """Return the conditions of a key, those of its ranges with `or` between them."""
        return " or ".join(parameter.conditions for parameter in self.parameters if parameter.name == name)


_BACKBONE = sections.BackboneSettings().model_dump()


def lacking(parameter: Parameter) -> Problem:
    """The Problem of a key without a value in trial 0."""
    name, example = parameter.name, parameter.choices[0] if parameter.choices else parameter.low
    rule = f"reference_point lacks {name}: trial 0 needs a value for every searched key"
    paths = ("reference_point",), ("search", name)
    return Problem(f"{rule}. Add '{name}: {show(example)}'.", *paths)


def ordered(parameters: list[Parameter]) -> tuple[Parameter, ...]:
    """Sort parents before children, otherwise as written; a Problem for an impossible or circular `when`."""
    for parameter in parameters:
        for key, wanted in parameter.when.items():
            parents = [each for each in parameters if each.name == key]
            if len(parents) > 1:
                rule = f"{key} has several ranges and cannot be a condition"
                raise Problem(f"search.{parameter.name}.when: {rule}.", ("search", parameter.name))
            for value in wanted if parents else ():
                parents[0].accept(value, f"search.{parameter.name}.when:", ("search", parameter.name))
    done: list[Parameter] = []
    rest = list(parameters)
    while rest:
        waiting = dict.fromkeys(parameter.name for parameter in rest)
        ready = next((each for each in rest if not waiting.keys() & each.when.keys()), None)
        if ready is None:
            message = f"the conditions of {' and '.join(waiting)} wait for each other. Delete one 'when'."
            raise Problem(f"search: {message}", ("search", rest[0].name))
        done.append(ready)
        rest.remove(ready)
    return tuple(done)


def _own_value(parameter: Parameter, value: Any) -> Any:
    """The experiment's own value, which the reference point uses when it gives none."""
    name = parameter.name
    try:
        return parameter.accept(value, "")
    except Problem:
        rule = f"trial 0 would take the experiment's own {show(value)}, which the bounds leave out"
        message = f"search.{name}: {rule}. Widen them, or add {name} to reference_point."
        raise Problem(message, ("search", name), tuple(name.split("."))) from None


def compiled(texts: Sequence[str], known: Collection[str]) -> tuple[Expression, ...]:
    compiled = []
    for text in texts:
        try:
            expression = compile_expression(text)
        except ExpressionError as error:
            raise Problem(f"require: {error}", ("require",)) from None
        for name in expression.names:
            if name not in known:
                near = near_or_list(name, known, "known keys")
                raise Problem(f"require: unknown key '{name}'{near}", ("require",))
        compiled.append(expression)
    return tuple(compiled)
