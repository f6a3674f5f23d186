"""The rival of search_live.py: Ray Tune, Optuna and Ray Train as their documentation puts them together.

A `TorchTrainer` for each trial, `OptunaSearch` with its default sampler, `ASHAScheduler`, and the best score
that any trial reported wins. Data, model, loss and training are dmltune's, so that the searches alone differ.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmltune.experiment import Experiment
from dmltune.resources import Resources
from dmltune.train.orders import Order
from dmltune.train.ray_session import plan_resources, ray_session

POOL, PROXIES = "references.pool_size", "references.proxies"


@dataclass(frozen=True)
class StockResult:
    values: dict[str, Any]
    score: float
    finished: int  # trials that reached their last step
    stopped: int  # by the scheduler
    steps: int  # of all trials together


def stock_loop(config: dict[str, Any]) -> None:
    """What the worker of a trial does."""
    import ray.train
    import torch

    from dmltune.train.trial import run_trial

    order = Order(**config["order"])
    torch.set_num_threads(order.threads)
    for report in run_trial(order, torch.device("cpu")):
        if report.failure:
            raise RuntimeError(report.failure)
        if report.step and report.score is not None:
            ray.train.report({"score": report.best_score, "step": report.step})


def tune_space(experiment: Experiment) -> dict[str, Any]:
    """Return the same ranges in Tune's words."""
    from ray import tune

    space: dict[str, Any] = {}
    for parameter in experiment.space.parameters:
        low, high = parameter.low, parameter.high
        if parameter.kind == "choice":
            space[parameter.name] = tune.choice(list(parameter.choices))
        elif parameter.kind == "int":
            draw = tune.lograndint if parameter.log else tune.randint
            space[parameter.name] = draw(int(low), int(high) + 1)
        else:
            space[parameter.name] = (tune.loguniform if parameter.log else tune.uniform)(low, high)
    return space


def allowed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with a pool that holds the proxies, the one rule of the spaces that are compared."""
    if POOL in values and PROXIES in values:
        return {**values, POOL: max(values[POOL], values[PROXIES])}
    return values


def stock_search(
    experiment: Experiment, seconds: float, concurrent: int, seed: int, data_root: Path | None
) -> StockResult:
    """Search for so many seconds, from the start of Ray on a running machine."""
    with ray_session(None) as session:
        from ray import tune
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.tune.integration.ray_train import TuneReportCallback
        from ray.tune.schedulers import ASHAScheduler
        from ray.tune.search import ConcurrencyLimiter
        from ray.tune.search.optuna import OptunaSearch

        threads = plan_resources(session, Resources(1, concurrent)).threads
        validations = experiment.max_steps // experiment.validate_every

        def trial(config: dict[str, Any]) -> None:
            folder = tempfile.mkdtemp(dir=session.scratch)
            settings = experiment.point(allowed(config)).to_dict()
            root = str(data_root) if data_root else None
            TorchTrainer(
                stock_loop,
                train_loop_config={"order": vars(Order("stock", settings, folder, root, threads))},
                scaling_config=ScalingConfig(num_workers=1, resources_per_worker={"CPU": 1}),
                run_config=RunConfig(
                    name=Path(folder).name,
                    storage_path=str(session.scratch / "stock"),
                    callbacks=[TuneReportCallback()],
                ),
            ).fit()

        search_algorithm = OptunaSearch(
            metric="score",
            mode="max",
            seed=seed,
            points_to_evaluate=[dict(experiment.space.reference_point)],
        )
        results = tune.Tuner(
            tune.with_resources(trial, {"node:__internal_head__": 0.001}),
            param_space=tune_space(experiment),
            tune_config=tune.TuneConfig(
                search_alg=ConcurrencyLimiter(search_algorithm, max_concurrent=concurrent),
                scheduler=ASHAScheduler(max_t=validations, grace_period=1),
                num_samples=-1,
                time_budget_s=seconds,
                metric="score",
                mode="max",
            ),
            run_config=tune.RunConfig(name="stock", storage_path=str(session.scratch), verbose=0),
        ).fit()
        steps = [int((result.metrics or {}).get("step", 0)) for result in results]
        reported = [result for result in results if "score" in (result.metrics or {})]
        if not reported:
            raise SystemExit(f"stock Ray Tune had no score after {seconds:g} s; give more --seconds")
        best = results.get_best_result(scope="all")
        assert best.config is not None
        assert best.metrics is not None
        ended = [step for step in steps if step]
        finished = sum(step == experiment.max_steps for step in ended)
        return StockResult(
            allowed(best.config), float(best.metrics["score"]), finished, len(ended) - finished, sum(ended)
        )
