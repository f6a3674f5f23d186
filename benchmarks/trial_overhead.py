"""Seconds a trial costs beyond its training: warm worker groups against a `TorchTrainer` a trial.

    python benchmarks/trial_overhead.py [--trials 6] [--stock-trials 3] [--workers 2]

Both train the same tiny run (glyphs, a few steps) one trial after the other with the same number of workers,
on the same local Ray settings, in one program. The overhead of a trial is the time from the end of the trial
before it to its own end, less `fit_seconds`: what its rank 0 spent training and validating. The first trial
of each side is left out.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from targets import Targets

import dmltune
from dmltune.experiment import Experiment
from dmltune.resources import Resources
from dmltune.search.state import SearchEvent
from dmltune.store import Store
from dmltune.train.orders import Order
from dmltune.train.ray_session import plan_resources, ray_session

SMALL = ("max_steps=4", "validate_every=4", "batch.size=16", "scheduler=none", "sampler=tpe")


def ours(experiment: Experiment, store: Store, trials: int, workers: int) -> list[float]:
    """One worker group of so many workers."""
    ends: list[tuple[float, float]] = []

    def watch(event: SearchEvent) -> None:
        if event.kind == "finished" and event.record is not None:
            assert event.record.state == "complete", event.record.reason
            ends.append((time.perf_counter(), event.record.metrics["fit_seconds"]))

    dmltune.search(
        experiment,
        space_name="overhead",
        trials=trials,
        workers=workers,
        concurrent=1,
        store=store,
        watch=watch,
    )
    return overheads(ends)


def stock_loop(config: dict[str, Any]) -> None:
    """What every worker of the stock pattern does; the training is the same."""
    import ray.train
    import torch

    from dmltune.train.trial import run_trial

    order = Order(**config["order"])
    torch.set_num_threads(order.threads)
    last = None
    for report in run_trial(order, torch.device("cpu")):
        last = report
    assert last is not None
    ray.train.report({"score": last.score, "fit_seconds": last.metrics["fit_seconds"]})


def stock(experiment: Experiment, store: Store, trials: int, workers: int) -> list[float]:
    """The pattern of Ray's documentation."""
    ends: list[tuple[float, float]] = []
    with ray_session(None) as session:
        from ray import tune
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.tune.integration.ray_train import TuneReportCallback
        from ray.tune.search import ConcurrencyLimiter
        from ray.tune.search.optuna import OptunaSearch

        threads = plan_resources(session, Resources(workers, 1)).threads

        def trial(config: dict[str, Any]) -> None:
            folder = tempfile.mkdtemp(dir=session.scratch)
            order = Order("stock", experiment.point(config).to_dict(), folder, None, threads)
            TorchTrainer(
                stock_loop,
                train_loop_config={"order": vars(order)},
                scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
                run_config=RunConfig(
                    name=Path(folder).name,
                    storage_path=str(session.scratch / "stock"),
                    callbacks=[TuneReportCallback()],
                ),
            ).fit()

        class Ends(tune.Callback):
            def on_trial_result(
                self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
            ) -> None:
                ends.append((time.perf_counter(), result["fit_seconds"]))

        proxies, pool = experiment.space["references.proxies"], experiment.space["references.pool_size"]
        space: dict[str, Any] = {
            p.name: tune.loguniform(p.low, p.high) for p in experiment.space.parameters if p.kind == "float"
        }
        space[proxies.name] = tune.randint(int(proxies.low), int(proxies.high) + 1)
        space[pool.name] = tune.randint(int(proxies.high), int(pool.high) + 1)  # never fewer than proxies
        results = tune.Tuner(
            tune.with_resources(trial, {"node:__internal_head__": 0.001}),
            param_space=space,
            tune_config=tune.TuneConfig(
                search_alg=ConcurrencyLimiter(OptunaSearch(metric="score", mode="max"), max_concurrent=1),
                num_samples=trials,
                metric="score",
                mode="max",
            ),
            run_config=tune.RunConfig(
                name="stock", storage_path=str(session.scratch), callbacks=[Ends()], verbose=0
            ),
        ).fit()
        assert not results.errors, results.errors[0]
    return overheads(ends)


def overheads(ends: list[tuple[float, float]]) -> list[float]:
    return [now - before - fit_s for (before, _), (now, fit_s) in itertools.pairwise(ends)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--stock-trials", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    experiment = dmltune.load_experiment("glyphs-ccp", SMALL)
    folder = Path(tempfile.mkdtemp(prefix="dmltune-benchmark-"))
    try:
        store = Store.at(folder)
        mine = ours(experiment, store, chosen.trials, chosen.workers)
        theirs = stock(experiment, store, chosen.stock_trials, chosen.workers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show("ours", mine)
    show("stock", theirs)
    targets = Targets()
    targets.check("overhead per trial", statistics.median(mine), "≤", 0.5, " s")
    targets.check("stock / ours", statistics.median(theirs) / statistics.median(mine), "≥", 20)
    targets.end()


def show(name: str, seconds: list[float]) -> None:
    print(
        f"{name}: median {statistics.median(seconds):.2f} s beyond training "
        f"({min(seconds):.2f} to {max(seconds):.2f}, {len(seconds)} trials)"
    )


if __name__ == "__main__":
    main()
