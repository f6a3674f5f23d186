"""A training's reports on their way to the screen, written into MLflow as they pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmltune.store import Store

if TYPE_CHECKING:
    from dmltune.experiment import Experiment
    from dmltune.train.orders import TrialReport


def tracked(
    reports: Iterator[TrialReport],
    experiment: Experiment,
    name: str,
    space_name: str,
    store: Store,
) -> Iterator[TrialReport]:
    """The same reports. The run is found by its name: a resume goes on in it, `dmltune evaluate` finds it."""
    from dmltune.search.parent_run import about
    from dmltune.tracking import Tracker
    from dmltune.train.api import training_folder
    from dmltune.train.name_claim import data_fingerprint

    trained = experiment.reference_experiment()
    reports = itertools.chain(
        [next(reports)], reports
    )  # a refusal comes with the first: then there is no run
    tracker = Tracker(store)
    tracker.close_stale()
    run_id = tracker.open_run(
        tracker.experiment(space_name),
        name,
        key={"dmltune.search": name, "dmltune.number": "parent"},
        params=trained.settings(),
        tags={
            **about(trained, data_fingerprint(store, name)),
            "dmltune.role": "training",
            "dmltune.state": "running",
            "dmltune.reason": "",
        },
    )
    written = tracker.logged_steps(run_id, trained.objective.metric)
    last = None
    try:
        for report in reports:
            last = report
            if report.step not in written and not report.failure:
                tracker.log(run_id, report.step, report.metrics)
            yield report
    finally:
        if last is not None and last.finished and not last.failure:
            tracker.log(run_id, last.step, {f"best_{trained.objective.metric}": last.best_score or 0.0})
            tracker.log_model(run_id, training_folder(store, name) / "best")
            tracker.close_run(run_id, "complete", last.reason)
        elif last is not None and last.failure:
            tracker.close_run(run_id, "failed", last.failure)
        else:
            tracker.close_run(run_id, "interrupted", "the same command continues")
