"""Measure races of folds: how often an equal trial is dropped, and what is saved at a planted gap.

    python benchmarks/fold_races.py [--races 4000]

Scores = fold effect (sd 3) + gap + noise (sd 1). The noise is known, or estimated as a search does
(`fold_noise`): from the rows of earlier configurations with all folds, the incumbent's among them, and from
the trial's own scores so far. The gap is in standard deviations of a score. `chosen`: the incumbent is the
best of so many equal configurations, as in a search, so that its scores are lucky.
"""

from __future__ import annotations

import argparse

import numpy as np

from dmltune.search.fold_race import drop, fold_noise, near_best


def measure(k: int, gap: float, rows: int, chosen: int, races: int) -> tuple[float, float]:
    """Return the share of dropped trials and of saved fold-trainings. Without `rows` the noise is known."""
    rng = np.random.default_rng([k, rows, chosen])
    dropped = saved = 0
    for _ in range(races):
        folds = 3 * rng.normal(size=k)
        noise: float | None = 1.0
        degrees = float("inf")
        rivals = folds + rng.normal(size=(chosen, k))
        incumbent = rivals[np.argmax(rivals.mean(axis=1))]
        others = folds + rng.normal(size=(max(0, rows - chosen), k))
        known = np.vstack([rivals, others])
        own = folds - gap + rng.normal(size=k)
        for j in range(1, k):
            if rows:
                partial = np.where(np.arange(k) < j, own, np.nan)
                noise, degrees = fold_noise(np.vstack([known, partial]).tolist())
            near = near_best(rivals.tolist(), noise or 1.0)
            if drop(own[:j].tolist(), incumbent.tolist(), k, noise, degrees=degrees, chosen_from=near):
                dropped, saved = dropped + 1, saved + k - j
                break
    return dropped / races, saved / (k * races)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--races", type=int, default=4000)
    options = parser.parse_args()
    print(" k  rows  chosen   equal: dropped   gap 2: dropped  saved")
    for k in (3, 5):
        for rows, chosen in ((0, 1), (3, 1), (10, 1), (0, 10), (10, 10)):
            equal, _ = measure(k, 0.0, rows, chosen, options.races)
            lost, saved = measure(k, 2.0, rows, chosen, options.races)
            print(
                f"{k:2d} {rows or 'known':>5} {chosen:6d} {equal:14.1%} {lost:16.1%} {saved:8.1%}", flush=True
            )


if __name__ == "__main__":
    main()
