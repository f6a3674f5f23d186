"""Several objectives: a score, and costs of the model against it. A higher score and lower costs are better.

Notation: trial a dominates b when its score is not lower, none of its costs is higher, and one of these
differs. The front are the trials that no other dominates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmltune.search.engine_trial import EngineTrial

THIRD = 3  # a trial goes on while it is in the best third of those that cost no more


@dataclass(frozen=True)
class Placed:
    """A trial by its score (higher is better) and its costs."""

    number: int
    score: float
    costs: tuple[float, ...]


def costs_of(trial: EngineTrial, against: Sequence[str]) -> tuple[float, ...] | None:
    """Return the costs in the order of `against`; None before they were measured."""
    if not all(name in trial.costs for name in against):
        return None
    return tuple(trial.costs[name] for name in against)


def no_costlier(costs: Iterable[float], than: Iterable[float]) -> bool:
    return all(own <= other for own, other in zip(costs, than, strict=True))


def front_of(placed: Sequence[Placed]) -> list[Placed]:
    """Return those that no other dominates, the highest score first; of equal ones the oldest."""
    members: list[Placed] = []
    for each in sorted(placed, key=lambda place: (-place.score, place.costs, place.number)):
        # whatever dominates it comes before it, and is dominated by a member or is one
        if not any(no_costlier(member.costs, each.costs) for member in members):
            members.append(each)
    return members


def knee_of(front: Sequence[Placed]) -> Placed | None:
    """Return the member farthest beyond the line from the best score to the lowest costs; None without one.

    Scores and the logarithms of costs are scaled to 0 … 1 (best) on the front, and the costs are averaged:
    the line is score + cost = 1.
    """
    if len(front) < 3:
        return None
    z = unit_scores([each.score for each in front], [each.costs for each in front])
    beyond = [score + sum(costs) / len(costs) for score, *costs in z]
    best = max(range(len(front)), key=lambda index: (beyond[index], -front[index].number))
    return front[best] if beyond[best] > 1 + 1e-9 else None


def unit_scores(scores: Sequence[float], costs: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return each objective scaled to 0 (worst) … 1 (best); one in which all are equal is 0 for all."""
    columns: list[list[float]] = [list(scores)]
    columns += [[-_log(cost) for cost in column] for column in zip(*costs, strict=True)]
    return [list(row) for row in zip(*(_scaled(column) for column in columns), strict=True)]


def _log(cost: float) -> float:
    return math.log(max(cost, 1e-12))


def _scaled(column: Sequence[float]) -> list[float]:
    low, high = min(column, default=0.0), max(column, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.0 for value in column]


def may_be_on_front(trial: EngineTrial, trials: Iterable[EngineTrial], against: Sequence[str]) -> bool:
    """Whether a trial is among the best third of those that cost no more, at the step that it has reached.

    Schedulers compare scores alone, which the costliest models win. What they would stop or pause goes on
    when it may be on the front: the cheapest trial has no rival, and the costliest has all others.
    """
    costs = costs_of(trial, against)
    if costs is None or trial.best is None:
        return False
    step, rivals, better = trial.steps[-1], 1, 0
    for other in trials:
        if other.number == trial.number or not other.is_point:
            continue
        theirs = costs_of(other, against)
        if theirs is None or not other.steps or not no_costlier(theirs, costs):
            continue
        reached = other.steps[-1] >= step or other.state == "complete"
        if reached:
            rivals += 1
            score = max(
                (y for x, y in zip(other.steps, other.scores, strict=True) if x <= step), default=-math.inf
            )
            better += (-score, other.number) < (-trial.best, trial.number)
    return better < -(-rivals // THIRD)


def hypervolume(front: Iterable[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Return the area between (score, cost) points and a reference with a lower score and a higher cost."""
    area, height = 0.0, reference[0]
    for score, cost in sorted(front, key=lambda point: (point[1], -point[0])):
        if score > height and cost < reference[1]:
            area += (score - height) * (reference[1] - cost)
            height = score
    return area
