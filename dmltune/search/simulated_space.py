"""A search space of any function: ranges, conditions and rules as in YAML, without an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment.problems import Problem
from dmltune.experiment.space.parameter import parse_ranges
from dmltune.experiment.space.search_space import SearchSpace, compiled, ordered


@dataclass(frozen=True)
class SimulatedSpace(SearchSpace):
    """Only its own rules hold; keys need not be those of an experiment."""

    def violated(self, values: Mapping[str, Any]) -> str | None:
        return self.broken_requirement(values, self.active(values))


def simulated_space(
    search: Mapping[str, Any],
    require: str | Sequence[str] = (),
    reference_point: Mapping[str, Any] | None = None,
    balanced: str | None = None,
) -> SimulatedSpace:
    """Return the space of what a YAML file has under `search:`; a mistake in it is a UserError."""
    try:
        parameters = ordered([each for name, spec in search.items() for each in parse_ranges(name, spec)])
        if not parameters:
            raise Problem("there is nothing to search: `search` is empty.", ("search",))
        rules = compiled([require] if isinstance(require, str) else require, list(search))
        space = SimulatedSpace(parameters, rules, {}, {}, {}, balanced)
        reference = space.reference_values(reference_point) if reference_point else {}
        return SimulatedSpace(parameters, rules, reference, {}, {}, balanced)
    except Problem as problem:
        raise UserError(str(problem)) from None
