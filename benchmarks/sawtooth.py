"""How often a scheduler drops the eventual winner of a search whose curves are saw-tooths (CCP).

    python benchmarks/sawtooth.py [--table FILE] [--searches 1000] [--trials 30] [--workers 4]

Every projection of CCP begins with proxies chosen anew, and the score dips. Searches are simulated on the
recorded table (record_table.py): the reference point comes first, then configurations in random order, each
with the curve of a random seed; a validation takes one unit of time. The eventual winner is the configuration
with the best mean over all seeds of its best score, among those of the search without the reference point.
It is dropped if it does not reach its end. Compared are Ray's own ASHA (judged by the current score,
grace_period of one validation, reduction_factor 4) and rules of dmltune; "share of steps" is of training all
to the end.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler
from targets import Targets

from dmltune.search import schedulers
from dmltune.search.engine_trial import Decision, EngineTrial
from dmltune.search.schedulers import Budget, Rule

TABLE = Path(__file__).parent / "data" / "glyphs-table.json"
Curve = tuple[list[float], list[int]]  # scores, and how many projections had ended
ENDED = {"continue": "complete", "stop": "pruned", "pause": "paused"}


class Table:
    """The recorded curves; configuration 0 is the reference point."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        self.steps: list[int] = document["steps"]
        self.curves: dict[int, list[Curve]] = {}
        for row in document["trials"]:
            if len(row["scores"]) == len(self.steps):
                ended = [number - 1 for number in row["projection"]]
                self.curves.setdefault(row["configuration"], []).append((row["scores"], ended))
        self.means = {
            number: statistics.fmean(max(scores) for scores, _ in curves)
            for number, curves in self.curves.items()
        }

    @property
    def budget(self) -> Budget:
        return Budget(self.steps[-1], self.steps[0])


class StockAsha:
    """Ray Tune's ASHA as a rule: its time is the number of the validation, its score the current one."""

    def __init__(self, validations: int, **parameters: Any) -> None:
        self._asha = AsyncHyperBandScheduler(
            time_attr="validation", metric="score", mode="max", max_t=validations, **parameters
        )
        self._trials: dict[int, Any] = {}

    def report(self, trial: EngineTrial) -> Decision:
        if trial.number not in self._trials:
            self._trials[trial.number] = SimpleNamespace(trial_id=str(trial.number))
            self._asha.on_trial_add(None, self._trials[trial.number])
        result = {"validation": len(trial.steps), "score": trial.scores[-1]}
        answer = self._asha.on_trial_result(None, self._trials[trial.number], result)
        return "stop" if answer == TrialScheduler.STOP else "continue"

    def promote(self, closing: bool = False) -> int | None:
        return None

    def restore(self, trial: EngineTrial) -> None:
        raise NotImplementedError("nothing is resumed here")

    def end(self, number: int) -> None:
        return None


class CurrentScore:
    """The same rungs in steps as `rungs`, and the same share of trials that go on, by the current score."""

    def __init__(self, rungs: list[int], reduction: int) -> None:
        self._scores: dict[int, list[float]] = {step: [] for step in rungs}
        self._reduction = reduction

    def report(self, trial: EngineTrial) -> Decision:
        scores, own = self._scores.get(trial.steps[-1]), trial.scores[-1]
        if scores is None:
            return "continue"
        scores.append(own)
        stops = sum(score > own for score in scores) >= -(-len(scores) // self._reduction)
        return "stop" if stops and not trial.protected else "continue"

    def promote(self, closing: bool = False) -> int | None:
        return None

    def restore(self, trial: EngineTrial) -> None:
        raise NotImplementedError("nothing is resumed here")

    def end(self, number: int) -> None:
        return None


def simulated_search(
    rule: Rule, curves: list[Curve], steps: list[int], workers: int
) -> dict[int, EngineTrial]:
    """Run the trials 0, 1, … on these curves until nothing is left to start or to promote."""
    trials: dict[int, EngineTrial] = {}
    heap: list[tuple[int, int, int]] = []  # (time, order, trial)
    now = order = 0
    while True:
        while len(heap) < workers:
            new = len(trials)
            number = rule.promote() if new < len(curves) else rule.promote(closing=True)
            if number is None and new < len(curves):
                number = new
                trials[new] = EngineTrial(new, "search" if new else "reference", {})
            if number is None:
                break
            trials[number].state = "running"
            heapq.heappush(heap, (now + 1, order := order + 1, number))
        if not heap:
            return trials
        now, _, number = heapq.heappop(heap)
        trial, (scores, projections) = trials[number], curves[number]
        at = len(trial.steps)
        trial.add(steps[at], scores[at], projections[at])
        decision = rule.report(trial)
        if at + 1 < len(steps) and decision == "continue":
            heapq.heappush(heap, (now + 1, order := order + 1, number))
            continue
        trial.state = "complete" if at + 1 == len(steps) else ENDED[decision]  # type: ignore[assignment]
        if trial.state != "paused":
            rule.end(number)


def figures(
    table: Table, make_rule: Callable[[], Rule], searches: int, trials: int, workers: int
) -> tuple[float, float, float]:
    """Return the shares of searches that drop the winner, of steps trained, and the mean loss of score."""
    dropped, used, losses = [], [], []
    for seed in range(searches):
        numbers = random.Random(seed)
        others = [number for number in table.curves if number > 0]
        chosen = [0, *numbers.sample(others, min(trials - 1, len(others)))]
        curves = [numbers.choice(table.curves[number]) for number in chosen]
        winner = max(range(1, len(chosen)), key=lambda place: table.means[chosen[place]])
        ended = simulated_search(make_rule(), curves, table.steps, workers)
        dropped.append(ended[winner].state != "complete")
        used.append(sum(len(trial.steps) for trial in ended.values()) / (len(chosen) * len(table.steps)))
        complete = [place for place, trial in ended.items() if trial.state == "complete"]
        best = max(complete, key=lambda place: max(curves[place][0]))
        losses.append(table.means[chosen[winner]] - table.means[chosen[best]])
    return statistics.fmean(dropped), statistics.fmean(used), statistics.fmean(losses)


def projection_rungs(table: Table) -> list[int]:
    """Return the steps at which the reference point reaches asha's rungs in projections."""
    ended = table.curves[0][0][1]
    counts = sorted({max(1, ended[-1] // 9), max(1, ended[-1] // 3)})
    return [table.steps[next(i for i, number in enumerate(ended) if number >= count)] for count in counts]


def rules(table: Table) -> Mapping[str, Callable[[], Rule]]:
    validations, budget = len(table.steps), table.budget
    rungs = projection_rungs(table)
    first = 1 + table.steps.index(rungs[0])

    def ours(name: str, **parameters: Any) -> Callable[[], Rule]:
        return lambda: schedulers.load(name, **parameters).build(budget)

    return {
        "Ray's ASHA, its defaults": lambda: StockAsha(validations),
        f"Ray's ASHA, grace {first}, reduction 3": lambda: StockAsha(
            validations, grace_period=first, reduction_factor=3
        ),
        f"current score at steps {rungs}": lambda: CurrentScore(rungs, 3),
        "asha, unit steps": ours("asha"),
        "asha, unit projections": ours("asha", unit="projections"),
        "asha, unit projections, reduction 4": ours("asha", unit="projections", reduction=4),
        "promote, unit steps": ours("promote"),
        "promote, unit projections": ours("promote", unit="projections"),
        "hyperband, unit projections": ours("hyperband", unit="projections"),
        "median": ours("median"),
        "topk": ours("topk"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--workers", type=int, default=4)
    chosen = parser.parse_args()
    table = Table(chosen.table)
    print(f"{len(table.curves)} configurations, {sum(map(len, table.curves.values()))} curves")
    print(f"{'rule':42} winner dropped   share of steps   score lost")
    found: dict[str, float] = {}
    for name, make_rule in rules(table).items():
        dropped, used, lost = figures(table, make_rule, chosen.searches, chosen.trials, chosen.workers)
        found[name] = dropped
        print(f"{name:42} {100 * dropped:12.1f} % {100 * used:14.1f} % {100 * lost:12.2f}", flush=True)
    targets = Targets()
    ours, stock = found["asha, unit projections"], found["Ray's ASHA, its defaults"]
    targets.check("winner dropped, projection rungs / stock ASHA", ours / stock, "≤", 1 / 3)
    targets.end()


if __name__ == "__main__":
    main()
