"""`dmltune.train`: one experiment, with the loop, folder and checkpoints that a trial of a search has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from dmltune.core.threads import torch_threads
from dmltune.experiment import Experiment
from dmltune.resources import Locations, Resources
from dmltune.runs import TrackedRun, data_inputs, provenance, training_params
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.test_access import record_monitoring
from dmltune.train.trial import run_trial
from dmltune.worker_resources import ANY, WorkerResources


def train(
    experiment: Experiment,
    *,
    name: str | None = None,
    space_name: str | None = None,
    workers: int = 1,
    threads: int | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
    per_worker: WorkerResources = ANY,
) -> Iterator[TrialReport]:
    """Yield a report per validation. The reference point is trained when the experiment has a space.

    The training is one run in MLflow (experiment `space_name`, default: the data set's name), which
    `dmltune.evaluate` finds by `name`. The same `name` continues where it stopped. One worker trains in this
    process, several train in Ray Train.
    """
    resources = Resources(workers, 1, address, per_worker=per_worker)
    locations = Locations(store or Store.at(), data_root)
    name = validated_name(name or f"train-{time.strftime('%Y%m%d-%H%M%S')}")
    fingerprint = validate_experiment(experiment, locations, workers)
    trained = experiment.reference_experiment()
    with claim_name(locations.store, name, experiment, fingerprint):
        record_monitoring(trained, locations, name)
        folder = training_folder(locations.store, name)
        order = Order.of(name, trained, folder, locations, threads or threads_of(usable_cores()))
        if locations.store.address:  # its run may be older than the checkpoint
            locations.store.bring(folder)
            order = replace(order, known_step=-1)
        here = workers == 1 and resources.per_worker.default
        reports = _here(order) if here else _in_workers(order, resources, locations)
        yield from _tracked(
            reports, trained, fingerprint, name, space_name or experiment.data.name, locations
        )


def training_folder(store: Store, name: str) -> Path:
    """Return the folder of a training's checkpoints."""
    return store.search_folder(name) / "trials" / "0000"


def _here(order: Order) -> Iterator[TrialReport]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch_threads(order.threads):
        yield from run_trial(order, device)


def _in_workers(order: Order, resources: Resources, locations: Locations) -> Iterator[TrialReport]:
    from dmltune.train.worker_pool import worker_pool

    with worker_pool(resources, locations) as pool:
        for _, report in pool.train([order]):
            yield report


def _tracked(
    reports: Iterator[TrialReport],
    experiment: Experiment,
    fingerprint: str,
    name: str,
    space_name: str,
    locations: Locations,
) -> Iterator[TrialReport]:
    """Yield the same reports, each logged. The run is opened with the first one, so a refusal leaves none."""
    run: TrackedRun | None = None
    finished = False
    try:
        for report in reports:
            if run is None:
                tracker = Tracker(locations.store)
                tracker.close_stale()
                run = TrackedRun.open(
                    tracker,
                    tracker.experiment(space_name),
                    name,
                    role="training",
                    metric=experiment.objective.metric,
                    params=training_params(experiment),
                    about=provenance(experiment, fingerprint),
                    inputs=data_inputs(experiment, fingerprint),
                )
            run.log(report)
            if report.finished:
                locations.store.bring(training_folder(locations.store, name))
                run.finish(report, training_folder(locations.store, name) / "best")
                finished = True
            yield report
    finally:
        if run is not None and not finished:
            run.interrupt()
