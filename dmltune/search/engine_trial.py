"""A trial as the search engine knows it: without Ray and without a clock, and a higher score is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TrialRole = Literal["reference", "baseline", "repeat", "search", "cheap"]
EngineState = Literal["running", "paused", "complete", "pruned", "failed"]
Decision = Literal["continue", "stop", "pause"]


@dataclass(slots=True)
class EngineTrial:
    """Scores are those of the search times -1 where low is good: the engine always looks for the highest.

    A repetition (`role` "repeat") trains the configuration of trial `repeats` with another seed or fold.
    A cheap one is a point at the lower fidelity, whose scores are compared with those of its kind alone.
    """

    number: int
    role: TrialRole
    values: Mapping[str, Any]
    seed: int = 0
    fold: int = 0
    repeats: int | None = None
    state: EngineState = "running"
    steps: list[int] = field(default_factory=list)  # of its validations, in ascending order
    scores: list[float] = field(default_factory=list)  # one for each of `steps`
    projections: list[int] = field(default_factory=list)  # CCP: how many had ended at each of `steps`
    untrained: float | None = None  # the score at step 0, which says nothing about the parameters
    attributes: Mapping[str, Any] = field(default_factory=dict)  # what the sampler stored in it
    measures_fidelity: bool = False  # a point whose full score is compared with a cheap one
    costs: Mapping[str, float] = field(
        default_factory=dict
    )  # of its model, as `objective.against` names them
    _finite: tuple[int, float] = (0, -math.inf)  # of so many validations the best finite score

    @property
    def configuration(self) -> int:
        """The number of the trial that first had this configuration."""
        return self.number if self.repeats is None else self.repeats

    @property
    def block(self) -> tuple[int, int]:
        """What it has in common with the other trials of the same seed and fold."""
        return self.seed, self.fold

    @property
    def is_point(self) -> bool:
        """Whether the sampler learns from it: not the baseline, which is no point of the space."""
        return self.role in ("reference", "search")

    @property
    def protected(self) -> bool:
        """Whether everything else is compared with it: such a trial is never stopped or paused."""
        return self.role != "search" or self.measures_fidelity

    @property
    def best(self) -> float | None:
        """The best finite score of a trained network so far; it is asked for with every proposal."""
        count, best = self._finite
        if count != len(self.scores):
            best = max([best, *filter(math.isfinite, self.scores[count:])])
            self._finite = len(self.scores), best
        return best if best > -math.inf else None

    @property
    def score(self) -> float | None:
        """The final score of a complete trial, which is that of the model that it leaves behind."""
        known = [score for score in (self.best, self.untrained) if score is not None]
        return max(known, default=None) if self.state == "complete" else None

    def add(self, step: int, score: float, projections: int = 0) -> bool:
        """Enter a validation; False for one that decides nothing, or that was entered before."""
        if step == 0:
            self.untrained = score
            return False
        if self.steps and step <= self.steps[-1]:
            return False
        self.steps.append(step)
        self.scores.append(score)
        self.projections.append(projections)
        return True

    def pop(self) -> tuple[int, float, int]:
        """Take back the last validation."""
        self._finite = (0, -math.inf)
        return self.steps.pop(), self.scores.pop(), self.projections.pop()


def is_identical(repetition: EngineTrial, original: EngineTrial) -> bool:
    """Whether a repetition has exactly the scores of its configuration: training is deterministic."""
    if repetition.fold != original.fold or repetition.seed == original.seed:
        return False
    known = dict(zip(original.steps, original.scores, strict=True))
    pairs = zip(repetition.steps, repetition.scores, strict=True)
    return all(known.get(step) == score for step, score in pairs)
