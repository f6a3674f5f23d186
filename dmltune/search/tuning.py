"""The part of a search that needs Ray: a worker pool, and Tune's loop over it."""

from __future__ import annotations

import time
from typing import Any

from ray import tune
from ray.tune.stopper import Stopper

from dmltune.experiment import Experiment
from dmltune.resources import Locations, Resources
from dmltune.search import samplers, schedulers
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposer
from dmltune.search.searcher import Dispatch, Recorder, StudySearcher
from dmltune.search.state import TrialRecord
from dmltune.search.trainable import BrokerTrainable
from dmltune.train.orders import Order
from dmltune.train.worker_pool import BROKER, WorkerPool, worker_pool

ACTOR_FAILURES = 3  # lost actors of one trial that Tune replaces; the training goes on in its worker group


class StopPolicy(Stopper):
    """Stop all trials on a signal, at the deadline, or when the search cannot go on."""

    def __init__(self, pool: WorkerPool, deadline: float | None) -> None:
        self._pool = pool
        self._deadline = deadline
        self.searcher: StudySearcher | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        late = self._deadline is not None and time.time() > self._deadline
        return self._pool.stopped.is_set() or late or self.failure() is not None

    def failure(self) -> BaseException | None:
        return self._pool.failure() or (self.searcher.failure if self.searcher else None)

    @property
    def reason(self) -> str:
        return "stopped" if self._pool.stopped.is_set() else "time is up"

    def __reduce__(self) -> Any:
        return (dict, ())  # Tune pickles stoppers into a snapshot that is never read


def run_trials(
    experiment: Experiment,
    records: TrialRecords,
    locations: Locations,
    resources: Resources,
    points: int,
) -> str:
    """Run trials until `points` points and the baseline are there. Return why it stopped earlier, or ""."""
    with worker_pool(resources, records.message) as pool:
        records.state.concurrent = pool.plan.concurrent
        policy = StopPolicy(pool, records.state.deadline)
        searcher = _searcher(experiment, records, locations, pool, points, policy)
        policy.searcher = searcher
        _tuner(experiment, records, pool, searcher, policy).fit()
        if (error := policy.failure()) is not None:
            raise error
        for number in records.under_way:
            records.interrupt(number, f"{policy.reason}; the same command continues")
        unfinished = records.interrupted() or len(records.trials()) < records.state.trials_planned
        return policy.reason if unfinished and policy.stop_all() else ""


def _searcher(
    experiment: Experiment,
    records: TrialRecords,
    locations: Locations,
    pool: WorkerPool,
    points: int,
    policy: StopPolicy,
) -> StudySearcher:
    def make_order(record: TrialRecord, point: Experiment) -> Order:
        folder = records.trial_folder(record.number)
        order_id = f"{records.state.name}/{record.number:04d}"
        untrained = records.untrained.get(point)
        return Order.of(order_id, point, folder, locations, pool.plan.threads, untrained=untrained)

    sampler = samplers.load(experiment.sampler.name, **experiment.sampler.parameters)
    proposer = Proposer(
        experiment.space,
        lambda seed: sampler.build(points, seed),
        experiment.objective.mode,
        experiment.seed,
    )
    address = {"broker": BROKER, "namespace": pool.session.namespace}
    dispatch = Dispatch(make_order, pool.close, address, pool.plan.concurrent)
    return StudySearcher(
        experiment, records, proposer, points, dispatch, may_start=lambda: not policy.stop_all()
    )


def _tuner(
    experiment: Experiment,
    records: TrialRecords,
    pool: WorkerPool,
    searcher: StudySearcher,
    policy: StopPolicy,
) -> tune.Tuner:
    budget = schedulers.Budget(experiment.max_steps, experiment.validate_every, experiment.objective.mode)
    scheduler = schedulers.load(experiment.scheduler.name, **experiment.scheduler.parameters)
    ranked = [trial for trial in records.trials() if trial.user_attrs.get("role") != "repeat"]
    history = [trial for trial in ranked if trial.state.is_finished()]
    # beside the driver, without taking a core from the worker groups
    place = tune.PlacementGroupFactory([{"node:__internal_head__": 0.001}])
    return tune.Tuner(
        tune.with_resources(BrokerTrainable, place),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler.build(budget, history),
            num_samples=1_000_000,  # the searcher ends the search
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(pool.session.scratch / "tune"),
            stop=policy,
            callbacks=[Recorder(searcher)],
            failure_config=tune.FailureConfig(max_failures=ACTOR_FAILURES),
            verbose=0,
        ),
    )
