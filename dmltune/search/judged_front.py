"""The front of a search whose scores are noisy: each member's score is what is believed of its true mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dmltune.search.beliefs import Beliefs, beliefs
from dmltune.search.design import design_of
from dmltune.search.engine_trial import EngineTrial
from dmltune.search.front import Placed, costs_of, front_of, knee_of
from dmltune.search.score_table import ScoreTable
from dmltune.search.state import Front, FrontMember, Range
from dmltune.search.winners import interval_of


@dataclass(frozen=True)
class _Judged:
    """Scores by trial number, and what they come from: beliefs, or plain means without repetitions."""

    scores: Mapping[int, float]
    belief: Beliefs | None

    def interval(self, number: int) -> Range | None:
        if self.belief is None:
            return None
        return interval_of(self.belief.mean_of(self.belief.candidates.index(number)), 0.95)


def judged_front(
    trials: Mapping[int, EngineTrial],
    against: Sequence[str],
    noise: float | None = None,
    stored: Collection[int] | None = None,
) -> Front | None:
    """Return the front of the complete points, the best score first; None before there is one.

    The scores are those of the engine. `noise` is that of a score if it is known; of `stored` trials, if
    given, the models are stored, and others are left out.
    """
    table = ScoreTable.of(trials.values())
    judged = _judged(table, noise)
    placed = [
        Placed(number, judged.scores[number], costs)
        for number in table.candidates
        if (costs := costs_of(trials[number], against)) is not None and (stored is None or number in stored)
    ]
    if not placed:
        return None
    members = front_of(placed)
    knee = knee_of(members)
    return Front(
        against=tuple(against),
        members=tuple(
            FrontMember(
                trial=each.number,
                score=each.score,
                interval=judged.interval(each.number),
                costs=dict(zip(against, each.costs, strict=True)),
            )
            for each in members
        ),
        knee=None if knee is None else knee.number,
    )


def _judged(table: ScoreTable, noise: float | None) -> _Judged:
    belief = beliefs(design_of(table), noise) if table.candidates else None
    if belief is None:
        return _Judged({number: table.mean(number) for number in table.candidates}, None)
    means = [belief.mean_of(index).mean for index in range(len(belief.candidates))]
    return _Judged(dict(zip(belief.candidates, means, strict=True)), belief)
