"""Ours against stock Ray Tune at the same wall time: how good is the configuration that each one chooses?

    python benchmarks/search_live.py [--space collage-ccp-gsp] [--seconds 240] [--repeats 3] [k=v …]
    python benchmarks/search_live.py --all --data-root …    # glyphs three times, birds once; 35 minutes

Before the first repeat the reference point is trained once, so that images, feature maps and pretrained
weights are in the caches of both. Each repeat runs both searches one after the other on the same machine,
with the same seed, in changing order. What they chose is then trained whole with fresh seeds; the mean of
these scores is the figure. A search's own score is shown beside it: the best of many promises too much.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stock_search import stock_search
from targets import Targets

import dmltune
from dmltune.experiment import Experiment
from dmltune.search.state import SearchResult
from dmltune.store import Store
from dmltune.train.orders import Order
from dmltune.train.trial import run_trial

FRESH_SEED = 1000
ALL = (("collage-ccp-gsp", 120.0, 3), ("cub-lite-frozen-ccp", 300.0, 1))  # space, seconds, repeats


@dataclass(frozen=True)
class Chosen:
    """What a search chose, how much it had trained, and the scores of the choice with fresh seeds."""

    values: dict[str, Any]
    promised: float
    finished: int
    stopped: int
    steps: int
    seconds: float
    true: tuple[float, ...] = ()


def ours(experiment: Experiment, chosen: argparse.Namespace, seed: int) -> Chosen:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dmltune-live-") as folder:
        result = dmltune.search(
            experiment,
            space_name="live",
            name="live",
            trials=chosen.most,
            time=chosen.seconds,
            concurrent=chosen.concurrent,
            store=Store.at(Path(folder)),
            data_root=chosen.data_root,
        )
    return Chosen(*_outcome(result), seconds=time.monotonic() - began)


def _outcome(result: SearchResult) -> tuple[dict[str, Any], float, int, int, int]:
    winner = result.winner
    assert winner is not None, result.reason
    corrected = result.verdict.corrected if result.verdict else None
    promised = corrected.mean if corrected else winner.best
    assert promised is not None
    states = [row.state for row in result.rows]
    steps = sum(row.step for row in result.rows)
    return winner.values, promised, states.count("complete"), states.count("pruned"), steps


def stock(experiment: Experiment, chosen: argparse.Namespace, seed: int) -> Chosen:
    began = time.monotonic()
    found = stock_search(experiment, chosen.seconds, chosen.concurrent, seed, chosen.data_root)
    seconds = time.monotonic() - began
    return Chosen(found.values, found.score, found.finished, found.stopped, found.steps, seconds)


def fresh_score(experiment: Experiment, values: dict[str, Any], seed: int, root: Path | None) -> float:
    """Return the best validation score of one whole training."""
    import torch

    torch.set_num_threads(1)
    trained = experiment.point(values).with_values({"seed": seed})
    folder = tempfile.mkdtemp(prefix="dmltune-live-")
    try:
        order = Order("fresh", trained.to_dict(), folder, str(root) if root else None)
        scores = [report.best_score for report in run_trial(order, torch.device("cpu"))]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return max(score for score in scores if score is not None)


SIDES: dict[str, Callable[[Experiment, argparse.Namespace, int], Chosen]] = {"ours": ours, "stock": stock}


def repeat(number: int, chosen: argparse.Namespace) -> dict[str, Chosen]:
    experiment = dmltune.load_experiment(chosen.space, [*chosen.overrides, f"seed={number}"])
    order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
    found = {name: SIDES[name](experiment, chosen, number) for name in order}
    seeds = range(FRESH_SEED, FRESH_SEED + chosen.fresh)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(chosen.concurrent, context) as pool:
        futures = {
            name: [
                pool.submit(fresh_score, experiment, side.values, seed, chosen.data_root) for seed in seeds
            ]
            for name, side in found.items()
        }
        scores = {name: tuple(future.result() for future in rows) for name, rows in futures.items()}
    return {name: Chosen(**{**vars(side), "true": scores[name]}) for name, side in found.items()}


def show(number: int, name: str, side: Chosen) -> None:
    true = 100 * statistics.fmean(side.true)
    hours = side.seconds / 3600
    print(
        f"repeat {number} {name:5}: chosen {true:5.1f} (promised {100 * side.promised:5.1f}); "
        f"{side.finished} finished, {side.stopped} stopped; "
        f"{(side.finished + side.stopped) / hours:.0f} trials and {side.steps / hours:.0f} steps an hour; "
        f"{side.seconds:.0f} s",
        flush=True,
    )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    spread = statistics.stdev(values) if len(values) > 1 else math.nan
    return statistics.fmean(values), spread / math.sqrt(len(values))


def warm_up(chosen: argparse.Namespace) -> None:
    """Train the reference point once, in a process of its own."""
    experiment = dmltune.load_experiment(chosen.space, chosen.overrides)
    values = dict(experiment.space.reference_point)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(fresh_score, experiment, values, FRESH_SEED, chosen.data_root).result()


def compare(chosen: argparse.Namespace, targets: Targets) -> None:
    """Run all repeats on one space."""
    began = time.monotonic()
    warm_up(chosen)
    print(f"{chosen.space}: one training beforehand took {time.monotonic() - began:.0f} s", flush=True)
    repeats = []
    for number in range(chosen.first, chosen.first + chosen.repeats):
        repeats.append(repeat(number, chosen))
        for name, side in repeats[-1].items():
            show(number, name, side)
    gains = [100 * (statistics.fmean(r["ours"].true) - statistics.fmean(r["stock"].true)) for r in repeats]
    gain, error = mean_and_error(gains)
    print(
        f"ours − stock, of the chosen configuration: {gain:+.1f} ± {error:.1f} points ({len(gains)} repeats)"
    )
    ratios = [r["ours"].steps / r["ours"].seconds / (r["stock"].steps / r["stock"].seconds) for r in repeats]
    ended = [
        (r["ours"].finished + r["ours"].stopped) / max(1, r["stock"].finished + r["stock"].stopped)
        for r in repeats
    ]
    span = f"{min(ratios):.1f} to {max(ratios):.1f}"
    print(f"steps an hour: {statistics.median(ratios):.1f} times stock's ({span})")
    targets.check(f"{chosen.space}: gain of the chosen configuration", gain, "≥", 0.0, " points")
    targets.check(f"{chosen.space}: trials, ours / stock", statistics.median(ended), "≥", 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", help="key=value, as for dmltune search")
    parser.add_argument("--space", default="collage-ccp-gsp")
    parser.add_argument("--seconds", type=float, default=240, help="of wall time for each search")
    parser.add_argument("--most", type=int, default=1000, help="trials of ours at most")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first repeat, which is its seed")
    parser.add_argument("--fresh", type=int, default=3, help="seeds to train what was chosen with")
    parser.add_argument("--concurrent", type=int, default=2)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--all", action="store_true", help="glyphs and birds, in the shortest useful time")
    chosen = parser.parse_args()
    plans = ALL if chosen.all else ((chosen.space, chosen.seconds, chosen.repeats),)
    targets = Targets()
    for chosen.space, chosen.seconds, chosen.repeats in plans:
        compare(chosen, targets)
    targets.end()


if __name__ == "__main__":
    main()
