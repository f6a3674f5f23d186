"""A series of fixed experiments under one name: trained on warm slots, a parent run and a child run for each.

What a member came to is kept as `result.json` in its folder: with it the member is never touched again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from dmltune.core.checkpoint import replace_file
from dmltune.experiment import Experiment
from dmltune.search.parent_run import about
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.build import training_images
from dmltune.train.measurement import examined
from dmltune.train.orders import Order, TrialReport
from dmltune.train.worker_pool import WorkerPool, finished_report

RESULT = "result.json"


class RunSeries:
    """The runs and folders of a series; whoever makes one has claimed its name."""

    def __init__(
        self, store: Store, name: str, space_name: str, base: Experiment, fingerprint: str, role: str
    ) -> None:
        self.name, self.store = name, store
        self.tracker = Tracker(store)
        self.tracker.close_stale()
        self._experiment_id = self.tracker.experiment(space_name)
        self._data_root: Path | None = None
        self._under_way: dict[str, str] = {}  # member → run
        self.parent = self.tracker.open_run(
            self._experiment_id,
            name,
            key={"dmltune.search": name, "dmltune.number": "parent"},
            params=base.settings(),
            tags={
                **about(base, fingerprint),
                "dmltune.role": role,
                "dmltune.state": "running",
                "dmltune.reason": "",
            },
        )

    @property
    def folder(self) -> Path:
        return self.store.search_folder(self.name)

    def member_folder(self, member: str) -> Path:
        return self.folder / "trials" / member

    def result(self, member: str) -> dict[str, Any] | None:
        """What `keep` was given; None for a member that is not done."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            found: dict[str, Any] = json.loads((self.member_folder(member) / RESULT).read_text())
            return found
        return None

    def train(
        self,
        crew: WorkerPool,
        members: Mapping[str, Experiment],
        data_root: Path | None,
        opening: str = "",
    ) -> Iterator[tuple[str, str, TrialReport]]:
        """(member, run id, report) per validation, each already in its run. After the last report of a member
        its run is over and has the model; the same call again goes on where this one was stopped.

        With an `opening` (a line of the test ledger) the workers also measure on the test classes.
        """
        self._data_root = data_root
        done = {member for member in members if self._done(member, opening)}
        yield from self._finished({member: members[member] for member in members if member in done})
        metric = {member: experiment.objective.metric for member, experiment in members.items()}
        orders = {
            f"{self.name}/{member}": Order(
                id=f"{self.name}/{member}",
                experiment=experiment.to_dict(),
                folder=str(self.member_folder(member)),
                data_root=str(Path(data_root).absolute()) if data_root else None,
                opening=opening,
            )
            for member, experiment in members.items()
            if member not in done
        }
        written: dict[str, set[int]] = {}
        for order_id, report in crew.train(orders.values()):
            member = order_id.partition("/")[2]
            if member not in self._under_way:
                run_id = self._open(member, members[member])
                written[member] = self.tracker.logged_steps(run_id, metric[member])
            run_id = self._under_way[member]
            if report.step not in written[member] and not report.failure:
                self.tracker.log(run_id, report.step, report.metrics)
            if report.finished:
                self._close(member, run_id, report, metric[member])
            yield member, run_id, report

    def keep(self, member: str, result: Mapping[str, Any], weights: bool = False) -> None:
        """The member is done. Its checkpoints go (the model is with its run), unless its `weights` are
        needed.
        """
        folder = self.member_folder(member)
        replace_file(folder / RESULT, json.dumps(result, indent=1).encode())
        shutil.rmtree(folder / "last", ignore_errors=True)
        if not weights:
            shutil.rmtree(folder / "best", ignore_errors=True)

    def close(self, state: Literal["interrupted", "complete", "failed"], reason: str = "") -> None:
        """Of the whole series; members under way are interrupted."""
        for run_id in self._under_way.values():
            self.tracker.close_run(run_id, "interrupted", reason)
        self._under_way.clear()
        self.tracker.close_run(self.parent, state, reason)

    def _done(self, member: str, opening: str) -> bool:
        folder = self.member_folder(member)
        return finished_report(folder) is not None and (not opening or examined(folder))

    def _finished(self, members: Mapping[str, Experiment]) -> Iterator[tuple[str, str, TrialReport]]:
        """Killed between the end of a training and `keep`: the end once more."""
        for member, experiment in members.items():
            report = finished_report(self.member_folder(member))
            if report is not None:
                run_id = self._open(member, experiment)
                if report.step not in self.tracker.logged_steps(run_id, experiment.objective.metric):
                    self.tracker.log(run_id, report.step, report.metrics)
                self._close(member, run_id, report, experiment.objective.metric)
                yield member, run_id, report

    def _open(self, member: str, experiment: Experiment) -> str:
        root = str(self._data_root) if self._data_root else None
        self._under_way[member] = self.tracker.open_run(
            self._experiment_id,
            f"{self.name}-{member}",
            key={"dmltune.search": self.name, "dmltune.number": member},
            params=experiment.settings(),
            tags={
                **about(experiment, training_images(experiment, root).fingerprint),
                "dmltune.role": "member",
                "dmltune.state": "running",
                "dmltune.reason": "",
            },
            parent=self.parent,
        )
        return self._under_way[member]

    def _close(self, member: str, run_id: str, report: TrialReport, metric: str) -> None:
        del self._under_way[member]
        if report.failure:
            if report.details:
                self.tracker.log_text(run_id, "failure.txt", report.details)
            self.tracker.close_run(run_id, "failed", report.failure)
            return
        if report.best_score is not None:
            self.tracker.log(run_id, report.step, {f"best_{metric}": report.best_score})
        self.tracker.log_model(run_id, self.member_folder(member) / "best")
        self.tracker.close_run(run_id, "complete", report.reason)
