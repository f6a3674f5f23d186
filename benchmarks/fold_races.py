"""Measure races of folds: how often an equal trial is dropped, and what is saved at a planted gap.

    python benchmarks/fold_races.py [--races 4000]

Scores = fold effect (sd 3) + gap + noise (sd 1). The incumbent is the best of `rows` equal configurations, so
its scores are lucky. The noise is known, or estimated as a search does (`fold_noise`): from the rows and from
the trial's own scores so far. The gap is in standard deviations of a score; that of a difference of two is
√2 times as much. `bound`: what a race could save with fold effects, incumbent and noise known exactly.
"""

from __future__ import annotations

import argparse

import numpy as np

from dmltune.search.fold_race import bounds, drop, fold_noise, share_dropped

GAPS = (2.0, 2.0 * np.sqrt(2))


def measure(k: int, gap: float, rows: int, known: bool, races: int) -> tuple[float, float]:
    """Return the share of dropped trials and of saved fold-trainings."""
    rng = np.random.default_rng([k, rows])
    dropped = saved = 0
    for _ in range(races):
        folds = 3 * rng.normal(size=k)
        complete = folds + rng.normal(size=(rows, k))
        own = folds - gap + rng.normal(size=k)
        noise: float | None = 1.0
        degrees = float("inf")
        for j in range(1, k):
            if not known:
                partial = np.where(np.arange(k) < j, own, np.nan)
                noise, degrees = fold_noise(np.vstack([complete, partial]).tolist())
            if drop(own[:j].tolist(), complete.tolist(), noise, degrees=degrees):
                dropped, saved = dropped + 1, saved + k - j
                break
    return dropped / races, saved / (k * races)


def most(k: int, gap: float) -> float:
    """Return the share that is saved at most, over the form of the bounds."""
    times = tuple(float(j) for j in range(1, k))
    found = []
    for shape in np.arange(-0.5, 1.01, 0.05):
        limits = np.array(bounds(times, 0.05, float(shape)))
        found.append(share_dropped(limits, times, gap).sum() / k)
    return float(max(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--races", type=int, default=4000)
    options = parser.parse_args()
    print(" k  rows  noise        equal: dropped   gap 2: saved  bound   gap 2√2: saved  bound")
    for k in (3, 5):
        for rows, known in ((1, True), (3, False), (10, False), (10, True)):
            equal, _ = measure(k, 0.0, rows, known, options.races)
            saved = [measure(k, gap, rows, known, options.races)[1] for gap in GAPS]
            print(
                f"{k:2d} {rows:5d}  {'known' if known else 'estimated':10} {equal:16.1%} {saved[0]:14.1%}"
                f" {most(k, GAPS[0]):6.1%} {saved[1]:16.1%} {most(k, GAPS[1]):6.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
