"""What a search may spend: trials by their purpose, and a clock for limits of time and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmltune.experiment import Experiment
from dmltune.experiment.fidelity import Fidelity

AUTO_SEEDS = 3  # of the reference point, in searches that are long enough
SHARE = 0.2  # of the budget, for repetitions of the candidates


def _nothing_used() -> float:
    return 0.0


@dataclass(frozen=True)
class Plan:
    """The trials of a search: `total` of them, in this order of purpose.

    `points` are the reference point and the sampler's proposals (with folds: their trainings), `repeats` the
    repetitions of the candidates at the end. `noise_repeats` of the reference point come beside
    them. A training at the lower `fidelity` counts as its share of a full one.
    `used` returns the share of the time or cost that is used up, and repetitions begin at 1 - `share`.
    """

    points: int
    reference: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False
    noise_repeats: int = 0
    repeats: int = 0
    share: float = SHARE
    folds: int = 1
    first_fold: int = 0
    seed: int = 0
    stop_at_noise: bool = False
    against: tuple[str, ...] = ()
    fidelity: Fidelity | None = None
    used: Callable[[], float] = _nothing_used

    @property
    def total(self) -> int:
        return self.points + self.baseline + self.noise_repeats + self.repeats

    @classmethod
    def of(
        cls, experiment: Experiment, trials: int | None = None, used: Callable[[], float] = _nothing_used
    ) -> Plan:
        """Return the plan for so many trials, by default the experiment's; the baseline is one of them."""
        own = bool(experiment.space.reference_point)
        least = 1 + bool(experiment.baseline)  # the reference point and the baseline always run
        wanted = max(experiment.trials if trials is None else trials, least)
        repeats = min(int(experiment.repeat_share * wanted), wanted - least)
        return cls(
            points=wanted - bool(experiment.baseline) - repeats,
            reference=experiment.space.reference_point,
            baseline=bool(experiment.baseline),
            noise_repeats=_noise_repeats(experiment.noise_seeds, wanted) if own else 0,
            repeats=repeats,
            share=experiment.repeat_share,
            folds=experiment.objective.folds,
            first_fold=experiment.fold,
            seed=experiment.seed,
            stop_at_noise=experiment.stop_at_noise,
            against=experiment.objective.against,
            fidelity=fidelity_of(experiment),
            used=used,
        )


def fidelity_of(experiment: Experiment) -> Fidelity | None:
    """Return the cheaper training of a validated experiment."""
    if not experiment.fidelity:
        return None
    return Fidelity.of(experiment.fidelity, experiment.max_steps, experiment.data.size)


def fidelity_settings(experiment: Experiment) -> dict[str, Any]:
    """Return what a cheap trial sets by dotted key; nothing without a fidelity."""
    return dict(fidelity.settings) if (fidelity := fidelity_of(experiment)) else {}


def _noise_repeats(seeds: int, trials: int) -> int:
    """Return how often the reference point runs again; 0 seeds stand for 3, or fewer in a short search."""
    return seeds - 1 if seeds else min(AUTO_SEEDS - 1, trials // 5)
