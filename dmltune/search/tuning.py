"""The part of a search that needs Ray: a worker pool, and Tune's loop over it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ray
from ray import tune
from ray.tune.stopper import Stopper

from dmltune.experiment import Experiment
from dmltune.resources import Locations, Resources
from dmltune.search.engine import Engine
from dmltune.search.heartbeat import heartbeats
from dmltune.search.records import TrialRecords
from dmltune.search.searcher import Dispatch, EngineScheduler, StudySearcher
from dmltune.search.state import TrialRecord
from dmltune.search.trainable import BrokerTrainable
from dmltune.store import Store
from dmltune.train.orders import Order
from dmltune.train.worker_pool import BROKER, WorkerPool, worker_pool

ACTOR_FAILURES = 3  # lost actors of one trial that Tune replaces; the training goes on in its worker group
NEVER_PROMOTED = "paused at its rung, and the search ended"


class StopPolicy(Stopper):
    """Stop all trials on a signal, when time or cost are used up, or when the search cannot go on."""

    def __init__(
        self,
        pool: WorkerPool,
        deadline: float | None,
        cost_used: Callable[[], float] = lambda: 0.0,
        each_time: Callable[[], None] = lambda: None,
        lost: Callable[[], BaseException | None] = lambda: None,
    ) -> None:
        self._pool = pool
        self._deadline = deadline
        self._cost_used = cost_used
        self._each_time, self._lost = each_time, lost
        self.searcher: StudySearcher | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        self._each_time()
        return self._pool.stopped.is_set() or self._late() or self._spent() or self.failure() is not None

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _spent(self) -> bool:
        return self._cost_used() >= 1

    def failure(self) -> BaseException | None:
        return self._lost() or self._pool.failure() or (self.searcher.failure if self.searcher else None)

    @property
    def reason(self) -> str:
        if self._pool.stopped.is_set():
            return "stopped"
        return "time is up" if self._late() else "the cost is used up"

    def __reduce__(self) -> Any:
        return (dict, ())  # Tune pickles stoppers into a snapshot that is never read


def run_trials(
    experiment: Experiment,
    records: TrialRecords,
    locations: Locations,
    resources: Resources,
    engine: Engine,
    cost_used: Callable[[], float],
    lost: Callable[[], BaseException | None] = lambda: None,
) -> str:
    """Run trials until the engine has no more. Return why it stopped earlier, or ""."""
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_leftovers, records, locations.store)  # when no worker writes any more
        pool = stack.enter_context(worker_pool(resources, locations, records.message))

        def look() -> None:
            records.state.concurrent = pool.concurrent
            records.pass_on_notes()

        look()
        policy = StopPolicy(pool, records.state.deadline, cost_used, look, lost)
        dispatch = _dispatch(records, locations, pool)
        searcher = StudySearcher(
            experiment, records, engine, dispatch, may_start=lambda: not policy.stop_all()
        )
        policy.searcher = searcher
        with heartbeats(pool.broker, records.state):
            _tuner(pool, searcher, policy).fit()
        if (error := policy.failure()) is not None:
            raise error
        for number in records.under_way:
            records.interrupt(number, f"{policy.reason}; the same command continues")
        if policy.stop_all() and (not searcher.ended or records.interrupted()):
            return policy.reason
        for number in records.paused():
            records.close(number, NEVER_PROMOTED)
            engine.end(number, "pruned")
        return ""


def _remove_leftovers(records: TrialRecords, store: Store) -> None:
    """Delete files of ended trials that workers wrote after their end."""
    left = store.subfolders(records.trial_folder(0).parent)
    for number, row in records.state.rows.items():
        folder = records.trial_folder(number)
        if row.state in ("complete", "pruned", "failed") and folder.name in left:
            store.discard(folder)


def _dispatch(records: TrialRecords, locations: Locations, pool: WorkerPool) -> Dispatch:
    def make_order(record: TrialRecord, point: Experiment) -> Order:
        folder = records.trial_folder(record.number)
        order_id = f"{records.state.name}/{record.number:04d}"
        untrained = records.untrained.get(point)
        costs = records.costs.for_order()
        order = Order.of(
            order_id, point, folder, locations, pool.plan.threads, untrained=untrained, known_costs=costs
        )
        known_step = record.step if record.score is not None else -1
        return pool.routed(replace(order, known_step=known_step))

    def pause(order_id: str) -> None:
        ray.get(pool.broker.pause.remote(order_id))  # before anybody asks for the order again

    address = {"broker": BROKER, "namespace": pool.session.namespace}
    return Dispatch(make_order, pool.close, pause, address, lambda: pool.concurrent)


def _tuner(pool: WorkerPool, searcher: StudySearcher, policy: StopPolicy) -> tune.Tuner:
    # beside the driver, without taking a core from the worker groups
    place = tune.PlacementGroupFactory([{"node:__internal_head__": 0.001}])
    return tune.Tuner(
        tune.with_resources(BrokerTrainable, place),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=EngineScheduler(searcher),
            num_samples=1_000_000,  # the searcher ends the search
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(pool.session.scratch / "tune"),
            stop=policy,
            failure_config=tune.FailureConfig(max_failures=ACTOR_FAILURES),
            verbose=0,
        ),
    )
