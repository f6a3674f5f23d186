"""How much of a known front a search finds: `objective.against` in simulated time, against random points.

    python benchmarks/pareto_front.py --seeds 12 --figure front.png

The score rises with the width of a network, with less and less gain; a wrong rate, decay or margin lowers it,
and the best rate depends on the width. So the front is known: the best score at each width. The measure is
the hypervolume of the true scores of all complete trials so far, as a share of the known front's.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from dmltune.search.front import hypervolume
from dmltune.search.simulation import simulate

SPACE = {
    "width": {"int": [8, 1024], "log": True},
    "rate": {"float": [-4.0, -1.0]},
    "decay": {"float": [0.0, 1.0]},
    "margin": {"float": [0.0, 1.0]},
}
STEPS, NOISE, WORST = 27, 0.004, (0.0, 1.1)
RUNS = (("random", "none"), ("random", "asha"), ("tpe", "asha"), ("auto", "asha"), ("auto", "promote"))


def size(values: dict[str, Any]) -> float:
    """Return log width, 0 … 1."""
    return math.log(values["width"] / 8) / math.log(128)


def best_at(width: float) -> float:
    return 0.8 * (1 - math.exp(-3 * width)) / (1 - math.exp(-3))


def final(values: dict[str, Any]) -> float:
    far = 0.3 * (values["rate"] + 2 + size(values)) ** 2
    far += 0.5 * (values["decay"] - 0.3) ** 2 + 0.5 * (values["margin"] - 0.6) ** 2
    return best_at(size(values)) - 0.5 * far


def curve(values: dict[str, Any], seed: int) -> tuple[list[float], float]:
    """Wide networks learn more slowly, so that early scores mislead, and their steps take longer."""
    rng = np.random.default_rng([seed, values["width"], int(1e6 * abs(values["rate"]))])
    speed = 4 - 1.5 * size(values)
    times = np.arange(1, STEPS + 1) / STEPS
    shape = (1 - np.exp(-speed * times)) / (1 - math.exp(-speed))
    return (final(values) * shape + rng.normal(0, NOISE)).tolist(), 1 + size(values)


def shares(run: tuple[str, str, int, int]) -> list[float]:
    """Return the share of the known hypervolume after 1, 2, … complete trials."""
    sampler, scheduler, trials, seed = run
    against = {"parameters": lambda values: float(values["width"])}
    found = simulate(
        SPACE, curve, sampler=sampler, scheduler=scheduler, trials=trials, max_steps=STEPS, seed=seed,
        against=against, repeat_share=0.0,
    )  # fmt: skip
    whole = hypervolume([(best_at(w), w) for w in np.linspace(0, 1, 2000)], WORST)
    ended = [trial for trial in found.trials.values() if trial.is_point]
    points: list[tuple[float, float]] = []
    result = []
    for trial in ended:
        if trial.state == "complete":
            points.append((final(dict(trial.values)), size(dict(trial.values))))
        result.append(hypervolume(points, WORST) / whole)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    jobs = [(*run, args.trials, seed) for run in RUNS for seed in range(args.seeds)]
    with ProcessPoolExecutor(args.processes) as pool:
        results = np.array(list(pool.map(shares, jobs))).reshape(len(RUNS), args.seeds, args.trials)
    print(f"share of the hypervolume, {args.seeds} seeds, after 10, 20 and {args.trials} trials")
    for run, curves in zip(RUNS, results, strict=True):
        means = "  ".join(f"{curves[:, at - 1].mean():.3f}" for at in (10, 20, args.trials))
        differences = curves[:, -1] - results[0, :, -1]
        p = f"   p against random {wilcoxon(differences).pvalue:.4f}" if differences.any() else ""
        print(f"{' + '.join(run):16s} {means}{p}")
    if args.figure:
        draw(results, args.figure)


def draw(results: np.ndarray, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained", dpi=150)
    axis = figure.add_subplot()
    trials = np.arange(1, results.shape[2] + 1)
    for run, curves in zip(RUNS, results, strict=True):
        mean, error = curves.mean(axis=0), 1.96 * curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
        axis.plot(trials, mean, label=" + ".join(run))
        axis.fill_between(trials, mean - error, mean + error, alpha=0.15, lw=0)
    axis.set_xlabel("trials")
    axis.set_ylabel("share of the front's hypervolume")
    axis.legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
