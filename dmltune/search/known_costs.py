"""What models cost to use, by architecture: for all trials with it as the first one has measured."""

from __future__ import annotations

from collections.abc import Sequence

from dmltune.search.study import Study
from dmltune.train.orders import TrialReport

_ATTRIBUTE = "costs"


class KnownCosts:
    """The costs in `against`, stored in the study so that a resumed search has them."""

    def __init__(self, study: Study, against: Sequence[str]) -> None:
        self._study, self._against = study, against
        self._costs: dict[str, dict[str, float]] = dict(study.attribute(_ATTRIBUTE, {}))

    def for_order(self) -> dict[str, dict[str, float]] | None:
        """Return what an order carries; None when the search has no costs."""
        return dict(self._costs) if self._against else None

    def of(self, report: TrialReport) -> dict[str, float]:
        """Return the costs of the trial that reports; nothing before they were measured."""
        if not self._against or not report.costs:
            return {}
        if report.architecture not in self._costs:
            self._costs[report.architecture] = report.costs
            self._study.set_attribute(_ATTRIBUTE, self._costs)
        known = self._costs[report.architecture]
        return {name: known[name] for name in self._against}
