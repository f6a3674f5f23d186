"""`dmltune.search`: from an experiment with a space to a winner, resumable by name."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.resources import Locations, Resources
from dmltune.runs import closed_on_error, provenance
from dmltune.search.budget import Plan
from dmltune.search.earlier import points_of, store_points
from dmltune.search.engine import Engine
from dmltune.search.findings import fidelity_result, idle_parameters, noise
from dmltune.search.limits import SpendingLimits
from dmltune.search.making import is_over, make_engine
from dmltune.search.outcome import front_of_search, outcome_of, with_model
from dmltune.search.records import TrialRecords
from dmltune.search.reporting import log_report
from dmltune.search.result_run import SearchRun, is_complete, log_result, search_run
from dmltune.search.session_options import SessionOptions
from dmltune.search.state import SearchEvent, SearchResult, SearchState, Watch
from dmltune.search.watching import Watcher
from dmltune.store import Store, validated_name
from dmltune.tracking.delivery import patience
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.test_access import record_monitoring
from dmltune.worker_resources import ANY, WorkerResources


def search(
    experiment: Experiment,
    *,
    space_name: str,
    name: str | None = None,
    trials: int | None = None,
    time: float | None = None,
    cost: float | None = None,
    start_from: Sequence[str] = (),
    workers: int = 1,
    concurrent: int | None = None,
    isolation: Literal["slot", "trial"] = "slot",
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
    per_worker: WorkerResources = ANY,
    watch: Watch | None = None,
) -> SearchResult:
    """Run `trials` trials in all: the reference point (trial 0), the baseline, the sampler's proposals, and
    in the last part of the budget repetitions of the candidates with other seeds.

    The experiment's `noise_seeds` adds repetitions of the reference point. The same `name` continues;
    `time` (seconds) ends it early, and so does `cost` (seconds of all workers, earlier sessions too). A new
    search learns from the searches `start_from` of the same store. Only the training half is read: scores
    are of validation classes. A worker asks Ray for `per_worker`. `watch` gets every SearchEvent.
    """
    resources = Resources(workers, concurrent, address, isolation, per_worker=per_worker)
    limits = SpendingLimits(time, cost, workers)
    name = validated_name(name or f"{space_name}-{clock.strftime('%Y%m%d-%H%M%S')}")
    plan = make_plan(experiment, trials, limits)
    locations = Locations(store or Store.at(), data_root)
    fingerprint = validate_experiment(experiment, locations, workers)
    about = provenance(experiment, fingerprint)
    state = _search_state(experiment, name, space_name, plan, limits)

    def say(text: str) -> None:
        Watcher(watch).show(SearchEvent("message", None, text, state))

    with (
        claim_name(locations.store, name, experiment, fingerprint),
        search_run(locations.store, experiment, name, space_name, about, say) as held,
    ):
        records = TrialRecords(locations.store, state, experiment, held.run, about, watch)
        records.pass_on_notes()
        if start_from and not records.trials():
            store_points(records.study, points_of(locations.store, start_from, experiment.space))
        SessionOptions.of(trials, time, cost, resources, locations).store(records.study)
        engine = make_engine(experiment, plan, records)
        if not held.is_new and is_over(experiment, plan, records):
            result = _result(experiment, records, engine, locations.store, "")
            return result if is_complete(held.run) else log_result(held.run, result, records, workers)
        held.run.reopen(about)
        record_monitoring(experiment, locations, name)
        result = _run(records, engine, held, locations, resources, limits)
    log_report(locations, result)
    return result


def _run(
    records: TrialRecords,
    engine: Engine,
    held: SearchRun,
    locations: Locations,
    resources: Resources,
    limits: SpendingLimits,
) -> SearchResult:
    """Run the trials that are left, and log what the search has come to."""

    def interrupt(reason: str) -> None:
        if held.lost() is not None:  # the runs are another session's now
            return
        for number in records.under_way:
            records.interrupt(number, reason)
        held.run.interrupt(reason)

    with closed_on_error(interrupt):
        from dmltune.search.tuning import run_trials

        experiment = records.experiment
        stopped = run_trials(experiment, records, locations, resources, engine, limits.cost_used, held.lost)
        records.flush(patience())
        result = _result(experiment, records, engine, locations.store, stopped)
        result = log_result(held.run, result, records, resources.workers)
        records.flush(patience())
    return result


def make_plan(experiment: Experiment, trials: int | None, limits: SpendingLimits) -> Plan:
    """Return the plan of a search; a budget that is none is a UserError."""
    if not experiment.searchable:
        raise UserError("this experiment has nothing to search (no `search:` section); use `dmltune train`")
    if trials is not None and trials < 1:
        raise UserError(f"--trials must be at least 1; got {trials}")
    limits.require_positive()
    return Plan.of(experiment, trials, limits.used)


def _search_state(
    experiment: Experiment, name: str, space_name: str, plan: Plan, limits: SpendingLimits
) -> SearchState:
    objective = experiment.objective
    state = SearchState(name, space_name, objective.metric, objective.mode, plan.total)
    state.deadline = limits.start(state)
    return state


def _result(
    experiment: Experiment, records: TrialRecords, engine: Engine, store: Store, stopped: str
) -> SearchResult:
    state = records.state
    rows = tuple(sorted(state.rows.values(), key=lambda row: row.number))
    best = state.best_row("reference", "search")
    found = outcome_of(engine.verdict(), state.mode)
    outcome = with_model(found, records.with_models(), best.number if best else None)
    return SearchResult(
        name=state.name,
        space_name=state.space_name,
        metric=state.metric,
        mode=state.mode,
        protocol=experiment.objective.protocol,
        rows=rows,
        winner=state.rows[outcome.winner] if outcome else None,
        reference=next((row for row in rows if row.role == "reference"), None),
        baseline=next((row for row in rows if row.role == "baseline"), None),
        untrained_score=records.untrained_score(),
        experiment_id=records.experiment_id,
        parent_run_id=records.parent.run_id,
        store=store.address or store.root,
        interrupted=bool(stopped),
        reason=stopped,
        noise=noise(rows),
        verdict=outcome,
        front=front_of_search(engine.front(records.with_models()), state.mode),
        fidelity=fidelity_result(engine.plan.fidelity, engine.trust(), rows),
        idle_parameters=idle_parameters(experiment.space.names, rows),
    )
