"""A series of fixed experiments under one name: a parent run and a child run for each member.

Folds, seeds and the rows of a table are trained this way. What a member came to is stored as `result.json` in
its folder; such a member is not trained again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmltune import tags
from dmltune.core.checkpoint import replace_file
from dmltune.errors import parse_json
from dmltune.experiment import Experiment
from dmltune.ledger import LedgerEntry
from dmltune.resources import Locations
from dmltune.runs import TrackedRun, data_inputs, provenance, training_params
from dmltune.tracking import Tracker
from dmltune.train.build import training_images
from dmltune.train.in_process import TrainingPool
from dmltune.train.measurement import is_measured
from dmltune.train.orders import LAST, Order, TrialReport
from dmltune.train.worker_pool import finished_report

TRIALS, RESULT = "trials", "result.json"


def stored_result(folder: Path, member: str) -> dict[str, Any] | None:
    """Return what `RunSeries.store_result` was given in the series of this folder."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        result: dict[str, Any] = parse_json((folder / TRIALS / member / RESULT).read_text(encoding="utf-8"))
        return result
    return None


class RunSeries:
    """The runs and folders of a series. The caller has claimed its name."""

    def __init__(
        self,
        locations: Locations,
        name: str,
        space_name: str,
        base: Experiment,
        fingerprint: str,
        role: tags.Role,
    ) -> None:
        self.name, self.locations = name, locations
        self.tracker = Tracker(locations.store)
        self.tracker.close_stale()
        self._experiment_id = self.tracker.experiment(space_name)
        self._open_runs: dict[str, TrackedRun] = {}
        self.parent = TrackedRun.open(
            self.tracker,
            self._experiment_id,
            name,
            role=role,
            params=training_params(base),
            about=provenance(base, fingerprint),
        )

    @property
    def folder(self) -> Path:
        return self.locations.store.search_folder(self.name)

    def member_folder(self, member: str) -> Path:
        return self.folder / TRIALS / member

    def result(self, member: str) -> dict[str, Any] | None:
        """Return what `store_result` was given; None for a member that is not done."""
        return stored_result(self.folder, member)

    def train(
        self, pool: TrainingPool, members: Mapping[str, Experiment], opening: LedgerEntry | None = None
    ) -> Iterator[tuple[str, TrackedRun, TrialReport]]:
        """Yield (member, run, report) per validation, each already logged in its run.

        After the last report of a member its run has ended and has the model. The same call again continues
        where this one was stopped. With an `opening` the workers also measure on the test classes.
        """
        done = {member for member in members if self._is_done(member, opening)}
        for member in done:  # killed between the end of a training and `store_result`
            report = finished_report(self.member_folder(member))
            assert report is not None
            yield self._logged(member, members[member], report)
        known_step = -1 if self.locations.store.address else LAST  # its runs may be older than the checkpoint
        orders = [
            replace(
                Order.of(
                    f"{self.name}/{member}",
                    experiment,
                    self.member_folder(member),
                    self.locations,
                    opening=opening,
                ),
                known_step=known_step,
            )
            for member, experiment in members.items()
            if member not in done
        ]
        for order_id, report in pool.train(orders):
            member = order_id.partition("/")[2]
            yield self._logged(member, members[member], report)

    def store_result(self, member: str, result: Mapping[str, Any], weights: bool = False) -> None:
        """Mark the member as done. Its checkpoints go; `weights` keeps the best ones beside the run's
        model."""
        folder = self.member_folder(member)
        replace_file(folder / RESULT, json.dumps(result, indent=1).encode())
        for finished in ("last", "images") if weights else ("last", "images", "best"):
            self.locations.store.discard(folder / finished)

    def close(self, interrupted: str = "") -> None:
        """End the parent run as complete, or as interrupted for this reason, with the members under way."""
        for run in self._open_runs.values():
            run.interrupt(interrupted)
        self._open_runs.clear()
        self.parent.end("interrupted" if interrupted else "complete", interrupted)

    def _is_done(self, member: str, opening: LedgerEntry | None) -> bool:
        folder = self.member_folder(member)
        self.locations.store.bring(folder)
        return finished_report(folder) is not None and (opening is None or is_measured(folder))

    def _logged(
        self, member: str, experiment: Experiment, report: TrialReport
    ) -> tuple[str, TrackedRun, TrialReport]:
        run = self._open_runs.get(member) or self._open(member, experiment)
        run.log(report)
        if report.finished:
            del self._open_runs[member]
            self.locations.store.bring(self.member_folder(member))
            run.finish(report, self.member_folder(member) / "best")
        return member, run, report

    def _open(self, member: str, experiment: Experiment) -> TrackedRun:
        fingerprint = training_images(experiment, self.locations.absolute_root).fingerprint
        self._open_runs[member] = TrackedRun.open(
            self.tracker,
            self._experiment_id,
            self.name,
            member,
            role="member",
            metric=experiment.objective.metric,
            run_name=f"{self.name}-{member}",
            params=training_params(experiment),
            about=provenance(experiment, fingerprint),
            parent=self.parent,
            inputs=data_inputs(experiment, fingerprint),
        )
        return self._open_runs[member]
