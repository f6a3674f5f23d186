"""One key of `search:`: its kind, its bounds or choices, and the conditions under which it applies.

A key may have several ranges, each under conditions of its own:

    loss.alpha: [{float: [0.1, 0.5], when: {loss.name: margin}}, {int: [8, 64], when: {loss.name: fastap}}]
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dmltune.experiment.problems import Problem, kind_of, near_or_list, number_remedy, show, unknown

Kind = Literal["float", "int", "choice"]
KINDS: tuple[Kind, ...] = ("float", "int", "choice")
MAX_CHOICES = 1000
_EXAMPLE = "{float: [0.1, 0.9]}, {int: [1, 16]} or {choice: [a, b]}"


_WHEN = " when "  # in the names of ranges; keys have no blanks


@dataclass(frozen=True)
class Parameter:
    """`low`/`high` (included; ints for int) or `choices`; `when` maps a key to the values it must have.

    `shared`: the key has other ranges too.
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    log: bool = False
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    shared: bool = False

    @property
    def label(self) -> str:
        """The name of this range in a study: Optuna knows one range for each name."""
        return f"{self.name}{_WHEN}{self.conditions}" if self.shared else self.name

    @staticmethod
    def parse(name: str, spec: Any) -> Parameter:
        """Read `search: {name: spec}`; a Problem says what is wrong with it."""
        path = ("search", name)
        if not isinstance(spec, Mapping):
            raise Problem(f"search.{name} must be {_EXAMPLE}; got {kind_of(spec)}.", path)
        for key in spec:
            if key not in (*KINDS, "log", "when"):
                raise Problem(unknown(key, (*KINDS, "log", "when"), f"search.{name}"), path)
        kinds = [kind for kind in KINDS if kind in spec]
        if len(kinds) != 1:
            got = " and ".join(kinds) if kinds else show(spec)
            rule = "needs exactly one of float, int and choice"
            raise Problem(f"search.{name} {rule}; got {got}. Write {_EXAMPLE}.", path)
        kind, log = kinds[0], spec.get("log", False)
        if not isinstance(log, bool):
            raise Problem(f"search.{name}.log must be true or false; got {kind_of(log)}.", path)
        when = _parse_when(name, spec["when"]) if "when" in spec else {}
        if kind != "choice":
            low, high = _parse_bounds(name, kind, spec[kind], log)
            return Parameter(name, kind, low, high, log=log, when=when)
        if log:
            raise Problem(f"search.{name}: log is for numbers, not for choices. Delete log.", path)
        return Parameter(name, kind, choices=_parse_choices(name, spec[kind]), when=when)

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical specification, which `parse` reads."""
        values = list(self.choices) if self.kind == "choice" else [self.low, self.high]
        log = {"log": True} if self.log else {}
        when = {key: list(allowed) if len(allowed) > 1 else allowed[0] for key, allowed in self.when.items()}
        return {self.kind: values, **log, **({"when": when} if when else {})}

    def accept(self, value: Any, where: str, *paths: tuple[str, ...]) -> Any:
        """Return the value in this parameter's type, or raise a Problem when it is not one of its values."""
        if self.kind == "choice":
            if equal := [choice for choice in self.choices if same(choice, value)]:
                return equal[0]
            near = near_or_list(str(value), [str(choice) for choice in self.choices], "choices")
            raise Problem(f"{where} {self.name} must be one of its choices; got {show(value)}{near}", *paths)
        if not is_number(value) or (self.kind == "int" and not isinstance(value, int)):
            rule = "a whole number" if self.kind == "int" else "a number"
            remedy = number_remedy(value, self.kind == "int")
            raise Problem(f"{where} {self.name} must be {rule}; got {kind_of(value)}.{remedy}", *paths)
        if not self.low <= value <= self.high:
            rule = f"must lie in its bounds {show((self.low, self.high))}; got {show(value)}"
            raise Problem(f"{where} {self.name} {rule}. Change it or widen the bounds.", *paths)
        return float(value) if self.kind == "float" else value

    def sample(self, random_numbers: random.Random) -> Any:
        """Draw one value, uniform in the bounds (in their logarithm with `log`)."""
        if self.kind == "choice":
            return random_numbers.choice(self.choices)
        if self.log:
            edge = 0.5 if self.kind == "int" else 0.0
            drawn = math.exp(random_numbers.uniform(math.log(self.low - edge), math.log(self.high + edge)))
            drawn = min(max(drawn, self.low), self.high)
            return round(drawn) if self.kind == "int" else drawn
        if self.kind == "int":
            return random_numbers.randint(int(self.low), int(self.high))
        return random_numbers.uniform(self.low, self.high)

    @property
    def conditions(self) -> str:
        """`loss.name: triplet`, for messages."""
        return ", ".join(f"{key}: {' or '.join(map(str, values))}" for key, values in self.when.items())


def key_of(label: str) -> str:
    """Return the key of a range by its `label`."""
    return label.partition(_WHEN)[0]


def parse_ranges(name: str, spec: Any) -> list[Parameter]:
    """Read `search: {name: spec}`, where `spec` is one range or a list of ranges that exclude each other."""
    if not isinstance(spec, (list, tuple)) or not all(isinstance(each, Mapping) for each in spec):
        return [Parameter.parse(name, spec)]
    ranges = [replace(Parameter.parse(name, each), shared=True) for each in spec]
    path, example = ("search", name), "{float: [0.1, 0.5], when: {loss.name: margin}}"
    if len(ranges) < 2:
        raise Problem(f"search.{name}: a list has two ranges at least, such as {example}.", path)
    for place, one in enumerate(ranges):
        for other in ranges[:place]:
            if not any(
                not any(same(a, b) for a in one.when[key] for b in other.when[key])
                for key in one.when.keys() & other.when.keys()
            ):
                rule = f"the ranges for {{{other.conditions}}} and {{{one.conditions}}} may apply together"
                raise Problem(f"search.{name}: {rule}. Give each a 'when' that excludes the others.", path)
    return ranges


def specification(ranges: Sequence[Parameter]) -> Any:
    """Return the canonical form of the ranges of one key, which `parse_ranges` reads."""
    return ranges[0].to_dict() if len(ranges) == 1 else [each.to_dict() for each in ranges]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal; true and 1 are not."""
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, str)) or is_number(value)


def _parse_bounds(name: str, kind: Kind, bounds: Any, log: bool) -> tuple[float, float]:
    path = ("search", name)
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        raise Problem(f"search.{name}.{kind} must be two bounds, [low, high]; got {kind_of(bounds)}.", path)
    for bound in bounds:
        remedy = number_remedy(bound, kind == "int")
        if not is_number(bound):
            rule = "a bound must be a finite number"
            raise Problem(f"search.{name}: {rule}; got {kind_of(bound)}.{remedy}", path)
        if kind == "int" and not isinstance(bound, int):
            rule = f"the bounds of an int must be whole numbers; got {show(bounds)}"
            raise Problem(f"search.{name}: {rule}.{remedy or ' Round them, or write float.'}", path)
    low, high = (float(bounds[0]), float(bounds[1])) if kind == "float" else (bounds[0], bounds[1])
    if high <= low:
        remedy = "Swap them." if high < low else "Fix it outside search instead."
        raise Problem(f"search.{name}: high must be above low; got {show([low, high])}. {remedy}", path)
    if log and low <= 0:
        rule = f"log needs low above 0; got {show([low, high])}"
        raise Problem(f"search.{name}: {rule}. Raise it or delete log.", path)
    return low, high


def _parse_choices(name: str, choices: Any) -> tuple[Any, ...]:
    path, where = ("search", name), f"search.{name}"
    if not isinstance(choices, (list, tuple)):
        raise Problem(f"{where}.choice must be a list, such as [a, b]; got {kind_of(choices)}.", path)
    if len(choices) < 2:
        rule = f"needs at least two values; got {show(choices)}"
        raise Problem(f"{where}.choice {rule}. Fix one outside search.", path)
    if len(choices) > MAX_CHOICES:
        rule = f"has {len(choices)} values; at most {MAX_CHOICES} can be searched"
        raise Problem(f"{where}.choice {rule}.", path)
    for place, choice in enumerate(choices):
        if not is_scalar(choice):
            raise Problem(f"{where}: a choice must be one plain value; got {kind_of(choice)}.", path)
        if any(same(choice, other) for other in choices[:place]):
            raise Problem(f"{where}: the choice {show(choice)} is written twice. Delete one of them.", path)
    return tuple(choices)


def _parse_when(name: str, when: Any) -> dict[str, tuple[Any, ...]]:
    path, where = ("search", name), f"search.{name}.when"
    if not isinstance(when, Mapping) or not when:
        rule = f"must be a mapping such as {{loss.name: triplet}}; got {kind_of(when)}"
        raise Problem(f"{where} {rule}.", path)
    conditions: dict[str, tuple[Any, ...]] = {}
    for key, value in when.items():
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        if not values or not all(is_scalar(item) for item in values):
            rule = f"{key} needs a value or a list of values; got {kind_of(value)}"
            raise Problem(f"{where}: {rule}. Write dotted keys, such as {{loss.name: triplet}}.", path)
        conditions[key] = values
    return conditions
