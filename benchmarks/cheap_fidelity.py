"""What a cheap fidelity saves in simulated time, and what it costs when its order is the opposite one.

    python benchmarks/cheap_fidelity.py --seeds 8 --samplers random tpe

Six numbers and a choice; the optimum of the numbers depends on the choice. A cheap training costs a tenth of
a full one, is on another scale and has six times the noise. Saved is the share of the time after which the
mean regret of the best full trial is that of the search without a fidelity.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from dmltune.search.simulation import simulate

SPACE: dict[str, Any] = {f"x{i}": {"float": [0.0, 1.0]} for i in range(6)}
SPACE["kind"] = {"choice": ["a", "b", "c", "d"]}
BEST = np.array([0.3, 0.6, 0.2, 0.75, 0.5, 0.9])
LOSSES = {"a": 0.0, "b": 0.1, "c": 0.2, "d": 0.05}
TRIALS, STEPS, SHARE = 60, 9, 0.1
CHEAP = {"data.size": 16, "cost": SHARE}
TIMES = (60, 90, 120, 134)
CASES: tuple[tuple[str, Mapping[str, Any] | None, int], ...] = (
    ("full trials alone", None, 1),
    ("cheap fidelity", CHEAP, 1),
    ("opposite order", CHEAP, -1),
)
Curve = list[tuple[float, float]]


def final(values: Mapping[str, Any]) -> float:
    x = np.array([values[f"x{i}"] for i in range(6)])
    best = np.roll(BEST, "abcd".index(values["kind"]))
    return float(1 - np.abs(x - best).sum() / 3 - LOSSES[values["kind"]])


def regrets(job: tuple[str, Mapping[str, Any] | None, int, int]) -> tuple[Curve, bool]:
    """Return the regret of the best full trial over time, and whether the fidelity was trusted."""
    sampler, fidelity, sign, seed = job

    def curve(
        values: dict[str, Any], seed: int, fidelity: Mapping[str, Any] | None = None
    ) -> tuple[list[float], float]:
        rng = np.random.default_rng([seed, *(int(1e6 * values[f"x{i}"]) for i in range(6))])
        if fidelity is not None:
            return [0.8 * sign * final(values) + rng.normal(0, 0.03)] * STEPS, SHARE
        return [final(values) + rng.normal(0, 0.005)] * STEPS, 1.0

    found = simulate(
        SPACE, curve, sampler=sampler, scheduler="none", trials=TRIALS, max_steps=STEPS, validate_every=STEPS,
        seed=seed, fidelity=fidelity, repeat_share=0.0,
    )  # fmt: skip
    ends = {number: time for time, number, *_ in found.events}
    points = sorted((ends[t.number], 1 - final(t.values)) for t in found.trials.values() if t.is_point)
    best, result = 2.0, []
    for time, regret in points:
        best = min(best, regret)
        result.append((time, best))
    return result, found.fidelity is not None and found.fidelity.trusted


def mean_at(curves: Sequence[Curve], time: float) -> float:
    return float(np.mean([min([r for at, r in curve if at <= time], default=2.0) for curve in curves]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--samplers", nargs="+", default=["random", "tpe", "gp"])
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    grid = np.arange(10, 150, 1.0)
    print(f"{args.seeds} seeds; mean regret and saved time at {', '.join(map(str, TIMES))}")
    with ProcessPoolExecutor(args.processes) as pool:
        for sampler in args.samplers:
            base = np.array([])
            for name, fidelity, sign in CASES:
                jobs = [(sampler, fidelity, sign, seed) for seed in range(args.seeds)]
                curves, trusted = zip(*pool.map(regrets, jobs), strict=True)
                means = np.array([mean_at(curves, time) for time in grid])
                base = base if len(base) else means
                shown = [f"{mean_at(curves, time):.3f} {saving(grid, base, means, time)}" for time in TIMES]
                end = np.mean([curve[-1][0] for curve in curves])
                print(
                    f"{sampler:8s} {name:18s} {'   '.join(shown)}   end {end:.0f}, trusted in {sum(trusted)}"
                )


def saving(grid: np.ndarray, base: np.ndarray, means: np.ndarray, time: float) -> str:
    """Return the saved share of the time until the regret that `base` has at `time`."""
    wanted = base[np.searchsorted(grid, time)]
    if not (means <= wanted).any():
        return "   –"
    first, other = grid[np.argmax(base <= wanted)], grid[np.argmax(means <= wanted)]
    return f"{100 * (1 - other / first):+3.0f}%"


if __name__ == "__main__":
    main()
