"""Error rates of a check's statistics on checks whose truth is known (simulated_check.py).

    python benchmarks/simulated_checks.py [checks for each row, 1000]

Effects are in points; a gap is one standard deviation of a single model. `shared` is the part of a single
model's variance that both configurations of a pair share (fold, pair): it cancels, and determines the power.
Rows marked * are outside of the targets: two folds, one repeat, very few effective classes, folds trained
from the same seeds, true scores with a long upper tail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from simulated_check import Truth, draw
from targets import Targets

from dmltune.check.comparison import compare
from dmltune.check.statistics import best_of_n, mean_interval

COMMON = Truth(fold=0.8, seed=0.5)
SCENES = {
    "4 folds x 3 repeats": COMMON,
    "4 x 2": replace(COMMON, repeats=2),
    "3 x 3": replace(COMMON, folds=3),
    "3 x 2": replace(COMMON, folds=3, repeats=2),
    "4 x 1 *": replace(COMMON, repeats=1),
    "2 x 3 *": replace(COMMON, folds=2),
    "no effect of folds": replace(COMMON, fold=0.0),
    "large effect of folds": replace(COMMON, fold=3.0),
    "interaction 1/4 of seed": replace(COMMON, interaction=0.25),
    "interaction = seed": replace(COMMON, interaction=0.5),
    "interaction 4 x seed": replace(COMMON, interaction=2.0),
    "class x model noise": replace(COMMON, mood=6.0),
    "the same, 8 classes": replace(COMMON, mood=5.0, classes=8, queries=200),
    "class x configuration": replace(COMMON, preference=2.0),
    "the same, strong": replace(COMMON, preference=8.0),
    "unequal classes": replace(COMMON, preference=4.0, unequal=1.0),
    "8 classes": replace(COMMON, preference=3.0, classes=8, queries=200),
    "10 very unequal *": replace(COMMON, preference=3.0, classes=10, queries=200, unequal=1.0),
    "seeds shared by folds *": replace(COMMON, seed=0.35, start=0.35),
    "all of it": replace(COMMON, interaction=0.4, preference=3.0, mood=3.0, unequal=0.7),
    "all of it, 4 x 2": replace(COMMON, interaction=0.4, preference=3.0, mood=3.0, unequal=0.7, repeats=2),
}


def share(truth: Truth) -> float:
    return (truth.fold**2 + truth.pair**2) / truth.sd_of_a_model() ** 2


def figures(truth: Truth, checks: int) -> tuple[float, float, float, float]:
    """Return percent of false positives, coverage and power; half width in sds of a model."""
    random, gap = np.random.default_rng(0), truth.sd_of_a_model()
    equal = replace(truth, interaction=0.0, preference=0.0)
    different = covered = significant = 0
    half = []
    for seed in range(checks):
        d = draw(equal, 0.0, random)
        different += compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, draws=500, seed=seed).p < 0.05
        d = draw(truth, gap, random)
        c = compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, draws=500, seed=seed)
        covered += c.low <= gap <= c.high
        significant += c.p < 0.05
        half.append((c.high - c.low) / 2 / gap)
    percent = 100 / checks
    return different * percent, covered * percent, significant * percent, float(np.median(half))


def comparisons(checks: int, targets: Targets) -> None:
    error = 200 * (0.05 * 0.95 / checks) ** 0.5  # two standard errors
    worst, least, most = 0.0, 100.0, 0.0
    print(f"{'compare':26}{'shared':>7}{'false positives':>18}{'coverage':>10}{'power':>7}{'± sd':>7}")
    for name, truth in SCENES.items():
        different, covered, significant, half = figures(truth, checks)
        line = f"{name:26}{share(truth):7.2f}{different:18.1f}{covered:10.1f}{significant:7.1f}{half:7.2f}"
        print(line, flush=True)
        if "*" not in name:
            worst, least, most = max(worst, different), min(least, covered), max(most, covered)
        if truth is COMMON:
            targets.check("gap of one sd is significant, 4 x 3", significant, "≥", 80, " %")
    targets.check("false positives", worst, "≤", round(5 + error, 1), " %")
    targets.check("lowest coverage of a difference", least, "≥", round(93 - error, 1), " %")
    targets.check("highest coverage of a difference", most, "≤", round(97 + error, 1), " %")


def power(checks: int) -> None:
    """Print how often a gap of one sd is significant, by shared variance and design."""
    designs = [(4, 2), (4, 3), (4, 4), (4, 5), (4, 8)]
    print(f"\n{'power, %; shared':26}" + "".join(f"{f'{f} x {r}':>8}" for f, r in designs))
    for shared in (0.0, 0.25, 0.5, 0.6, 0.7, 0.8):
        row = []
        for folds, repeats in designs:
            random = np.random.default_rng(1)
            sds = {"fold": shared**0.5, "seed": (1 - shared) ** 0.5, "mood": 0.1, "noise": 0.1}
            truth, count = Truth(**sds, folds=folds, repeats=repeats), 0
            for seed in range(checks):
                d = draw(truth, 1.0, random)
                count += compare(d.ours_MQ, d.base_MQ, d.class_Q, d.fold_M, draws=200, seed=seed).p < 0.05
            row.append(100 * count / checks)
        print(f"{shared:<26.2f}" + "".join(f"{x:8.0f}" for x in row), flush=True)


def means(checks: int, targets: Targets) -> None:
    least, most = 100.0, 0.0
    ratios = (0, 0.3, 0.6, 1, 2, 5)
    print(f"\n{'coverage of a mean; fold sd / seed sd':44}" + "".join(f"{x:>7}" for x in ratios))
    for folds, repeats in ((4, 3), (4, 2), (3, 3), (3, 2), (4, 5), (2, 3), (4, 1)):
        row, random, fold_M = [], np.random.default_rng(2), np.repeat(np.arange(folds), repeats)
        for fold in ratios:
            score_SM = fold * random.normal(size=(4 * checks, folds))[:, fold_M]
            score_SM = score_SM + random.normal(size=score_SM.shape)
            intervals = [mean_interval(score_M, fold_M) for score_M in score_SM]
            row.append(100 * float(np.mean([i.low <= 0 <= i.high for i in intervals])))
        least, most = min(least, *row), max(most, *row)
        print(f"{f'{folds} x {repeats}':44}" + "".join(f"{x:7.1f}" for x in row), flush=True)
    error = 100 * (0.05 * 0.95 / checks) ** 0.5
    targets.check("lowest coverage of a mean", least, "≥", round(93 - error, 1), " %")
    targets.check("highest coverage of a mean", most, "≤", round(97 + error, 1), " %")


Random = np.random.Generator
TRUE_SCORES: dict[str, Callable[[Random, int], np.ndarray]] = {
    "all equal": lambda random, n: np.zeros(n),
    "normal": lambda random, n: random.normal(size=n),
    "normal, wide": lambda random, n: 2 * random.normal(size=n),
    "tail of bad trials": lambda random, n: -2 * random.exponential(size=n),
    "optimum of a quadratic": lambda random, n: -2 * np.square(random.uniform(-1, 1, (n, 2))).sum(axis=1),
    "plateau and cliff": lambda random, n: np.where(
        random.random(n) < 0.6, 0.3 * random.normal(size=n), -3.0
    ),
    "upper tail *": lambda random, n: random.exponential(size=n),
}


def winners(checks: int, targets: Targets) -> None:
    """Print the bias of a winner under noise of sd 1, known or measured (df = 16)."""
    sizes, least, most = (6, 12, 30, 100), 100.0, 0.0
    print("\nwinner's bias and % of it removed" + "".join(f"{f'n = {n}':>12}" for n in sizes))
    for measured in (False, True):
        for name, true_scores in TRUE_SCORES.items():
            row = []
            for n in sizes:
                random, before, after = np.random.default_rng(3), [], []
                for _ in range(checks // 2):
                    truth = true_scores(random, n)
                    score_N = truth + random.normal(size=n)
                    best = int(score_N.argmax())
                    noise = (random.chisquare(16) / 16) ** 0.5 if measured else 1.0
                    before.append(score_N[best] - truth[best])
                    after.append(best_of_n(score_N, noise, best).corrected - truth[best])
                removed = 100 * (1 - float(np.mean(after) / np.mean(before)))
                row.append(f"{np.mean(before):6.2f}{removed:6.0f}")
                if "*" not in name and not measured:
                    least, most = min(least, removed), max(most, removed if n > 6 else 0.0)
            print(f"{name + (', measured' if measured else ''):33}" + "".join(row), flush=True)
    targets.check("least of the winner's bias removed", least, "≥", 80, " %")
    targets.check("most of it, n > 6", most, "≤", 120, " %")


def main() -> None:
    checks, targets = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, Targets()
    comparisons(checks, targets)
    power(checks)
    means(checks, targets)
    winners(checks, targets)
    targets.end()


if __name__ == "__main__":
    main()
