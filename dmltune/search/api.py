"""`dmltune.search`: from an experiment with a space to a winner, resumable by name."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.search.parent_run import about, close_parent, leave, open_parent
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposer
from dmltune.search.state import SearchResult, SearchState, TrialRecord, Watch
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.orders import Order
from dmltune.train.stop_signals import stop_signals

ACTOR_FAILURES = (
    3  # how often Tune may replace a trial's dead actor; the training goes on in its slot meanwhile
)


def search(
    experiment: Experiment,
    *,
    space_name: str,
    name: str | None = None,
    trials: int | None = None,
    time: float | None = None,
    workers: int = 1,
    concurrent: int | None = None,
    isolation: Literal["slot", "trial"] = "slot",
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
    watch: Watch | None = None,
) -> SearchResult:
    """Run `trials` trials in all: the reference point (trial 0), the baseline, and what the sampler proposes.

    The same `name` goes on where it stopped; `time` (seconds) ends it early, to be continued. Only the
    training half of the data set is read: scores are those of the validation classes.
    """
    planned = experiment.trials if trials is None else trials
    _check_budget(experiment, planned, time, workers, concurrent)
    planned = max(planned, 1 + bool(experiment.baseline))  # the baseline always runs too
    name = validated_name(name or f"{space_name}-{clock.strftime('%Y%m%d-%H%M%S')}")
    store = store or Store.at()
    fingerprint = validate_experiment(experiment, data_root, workers)
    tracker = Tracker(store)
    with claim_name(store, name, experiment, fingerprint):
        tracker.close_stale()
        experiment_id = tracker.experiment(space_name)
        tags = about(experiment, fingerprint)
        parent = open_parent(tracker, experiment_id, name, experiment, tags)
        board = SearchState(name, space_name, experiment.objective.metric, experiment.objective.mode, planned)
        board.deadline = clock.time() + time if time else None
        logbook = TrialRecords(store, tracker, board, experiment, parent, tags, watch)
        stopped = ""
        try:
            if logbook.interrupted() or len(logbook.trials()) < planned:
                stopped = _run(
                    experiment, logbook, store, data_root, address,
                    points=planned - bool(experiment.baseline),
                    workers=workers, concurrent=concurrent, isolation=isolation,
                )  # fmt: skip
        except BaseException as error:
            leave(logbook, tracker, parent, f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        result = _result(experiment, logbook, experiment_id, parent, store, stopped)
        close_parent(tracker, result)
        return result


def _run(
    experiment: Experiment,
    logbook: TrialRecords,
    store: Store,
    data_root: Path | None,
    address: str | None,
    *,
    points: int,
    workers: int,
    concurrent: int | None,
    isolation: str,
) -> str:
    """Everything that needs Ray. Says why it was stopped before its end, or nothing."""
    from dmltune.train.ray_session import plan, ray_session

    with ray_session(address) as session, stop_signals(logbook.message) as stopped:
        from ray import tune

        from dmltune.search.scheduling import scheduler_for
        from dmltune.search.searcher import Recorder, StudySearcher
        from dmltune.search.trainable import BrokerTrainable
        from dmltune.train.slots import BROKER, running_slots

        layout = plan(session, workers, concurrent)
        logbook.board.concurrent = layout.concurrent
        with running_slots(session, layout, isolation) as slots:
            deadline = logbook.board.deadline

            def stop_all() -> bool:
                late = deadline is not None and clock.time() > deadline
                return stopped.is_set() or late or failure() is not None

            def failure() -> BaseException | None:
                return slots.failure() or searcher.failure

            def make_order(row: TrialRecord, point: Experiment) -> Order:
                return Order(
                    id=f"{logbook.board.name}/{row.number:04d}",
                    experiment=point.to_dict(),
                    folder=str(logbook.trial_folder(row.number)),
                    data_root=str(Path(data_root).absolute()) if data_root else None,
                    threads=layout.threads,
                )

            known = logbook.trials()
            searcher = StudySearcher(
                experiment,
                logbook,
                Proposer(
                    experiment.space, experiment.sampler.name, _direction(experiment), points,
                    seed=experiment.seed + 1000 * len(known),  # a resumed search does not draw points again
                ),
                points=points,
                concurrent=layout.concurrent,
                make_order=make_order,
                address={"broker": BROKER, "namespace": session.namespace},
                close_order=slots.broker.close.remote,
                may_start=lambda: not stop_all(),
            )  # fmt: skip
            proxy = tune.with_resources(
                BrokerTrainable, tune.PlacementGroupFactory([{"node:__internal_head__": 0.001}])
            )  # beside the driver, without taking a core from the slots
            tuner = tune.Tuner(
                proxy,
                tune_config=tune.TuneConfig(
                    search_alg=searcher,
                    scheduler=scheduler_for(experiment, [t for t in known if t.state.is_finished()]),
                    num_samples=1_000_000,  # the searcher says when it is over
                    reuse_actors=True,
                    trial_name_creator=lambda trial: trial.trial_id,
                    trial_dirname_creator=lambda trial: trial.trial_id,
                ),
                run_config=tune.RunConfig(
                    name="search",
                    storage_path=str(session.scratch / "tune"),
                    stop=_stopper(stop_all),
                    callbacks=[Recorder(searcher)],
                    failure_config=tune.FailureConfig(max_failures=ACTOR_FAILURES),
                    verbose=0,
                ),
            )
            tuner.fit()
            if (error := failure()) is not None:
                raise error
            reason = "stopped" if stopped.is_set() else "time is up"
            for number in logbook.under_way:
                logbook.interrupt(number, f"{reason}; the same command continues")
            left = logbook.interrupted() or len(logbook.trials()) < logbook.board.trials_planned
            return reason if left and stop_all() else ""


def _stopper(stop_all: Callable[[], bool]) -> Any:
    from ray.tune.stopper import Stopper

    class StopAll(Stopper):
        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            return False

        def stop_all(self) -> bool:
            return stop_all()

        def __reduce__(self) -> Any:
            return (dict, ())  # Tune pickles stoppers into a snapshot that nobody reads

    return StopAll()


def _check_budget(
    experiment: Experiment, trials: int, time: float | None, workers: int, concurrent: int | None
) -> None:
    if not experiment.searchable:
        raise UserError("this experiment has nothing to search (no `search:` section); use `dmltune train`")
    for option, value in (("--trials", trials), ("--workers", workers), ("--concurrent", concurrent)):
        if value is not None and value < 1:
            raise UserError(f"{option} must be at least 1; got {value}")
    if time is not None and time <= 0:
        raise UserError(f"--time must be above 0; got {time:g} s")


def _result(
    experiment: Experiment, logbook: TrialRecords, experiment_id: str, parent: str, store: Store, stopped: str
) -> SearchResult:
    board = logbook.board
    rows = tuple(sorted(board.rows.values(), key=lambda row: row.number))
    return SearchResult(
        name=board.name,
        space_name=board.space_name,
        metric=board.metric,
        mode=board.mode,
        protocol=experiment.objective.protocol,
        rows=rows,
        winner=board.best_row("reference", "search"),
        reference=next((row for row in rows if row.role == "reference"), None),
        baseline=next((row for row in rows if row.role == "baseline"), None),
        untrained_score=logbook.untrained_score(),
        experiment_id=experiment_id,
        parent_run_id=parent,
        store=store.root,
        interrupted=bool(stopped),
        reason=stopped,
    )


def _direction(experiment: Experiment) -> Literal["maximize", "minimize"]:
    return "maximize" if experiment.objective.mode == "max" else "minimize"
