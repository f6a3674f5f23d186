"""Configurations under folds × seeds, trained, measured on the test classes and compared: one table a name.

plan.json     what is to be trained; only ever added to
trials/…      the models, as a search has them; test.safetensors in each
check.json    the document, once everything is there: figures on test classes are not shown before
report.html   the same for people
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dmltune import tags
from dmltune.check.artifacts import DOCUMENT, PAGE, finished, log_figures, show_again, write, write_openings
from dmltune.check.configurations import Configuration, check_keys
from dmltune.check.finished_search import FinishedSearch
from dmltune.check.measurements import LEVEL, METRIC, plain, results
from dmltune.check.plan import CheckPlan, PlannedModel, planned, protocol_for
from dmltune.check.progress import CheckProgress
from dmltune.errors import UserError
from dmltune.ledger import Kind, Ledger, LedgerEntry
from dmltune.provenance import version_tags
from dmltune.resources import Locations, Resources
from dmltune.runs import TrackedRun
from dmltune.store import Store, validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.run_series import RunSeries
from dmltune.train.test_access import OpenedTest, open_test
from dmltune.train.worker_pool import worker_pool

INTERRUPTED = "the same command continues"
ROLE: tags.Role = "check"


@dataclass(frozen=True)
class CheckResult:
    """`stopped`: before its end, with nothing to show yet. `nothing_new`: it was finished before; nothing was
    trained and no test class read."""

    document: dict[str, Any]
    folder: Path
    stopped: bool = False
    nothing_new: bool = False

    @property
    def page(self) -> Path | None:
        path = self.folder / PAGE
        return path if path.is_file() else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; figures are fractions."""
        return self.document


def check_configurations(
    name: str,
    configurations: Sequence[Configuration],
    baseline: str | None,
    *,
    space_name: str,
    repeats: int | None = None,
    folds: int | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
    workers: int = 1,
    concurrent: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    why: str = "",
    kind: Kind = "check",
    study: str = "",
    search: FinishedSearch | None = None,
    extra: Mapping[str, Any] | None = None,
) -> CheckResult:
    """Train what is missing of configurations × folds × repeats, then measure and compare all of it.

    `baseline` is the key of the configuration that the others are compared with. The same `name` goes on
    where it stopped; more repeats, folds or configurations under it only add. `study` is what the test ledger
    calls the openings, `why` their reason; `extra` goes into the document.
    """
    locations = Locations(store or Store.at(), data_root)
    store, study = locations.store, study or name
    check_keys(configurations, baseline)
    folder = store.search_folder(validated_name(name))
    before = CheckPlan.read(folder)
    if before is None:
        _check_name(store, name)
        protocol, note = protocol_for(configurations[0].experiment, data_root)
        if note:
            say(note)
    else:
        protocol = before.protocol
    plan = planned(name, before, list(configurations), baseline, protocol, folds, repeats)
    if (repeats or plan.repeats) < plan.repeats or (folds or plan.folds) < plan.folds:
        say(f"{name} has {plan.folds} folds × {plan.repeats} repeats; what was measured is shown, all of it")
    if (shown := finished(folder, plan)) is not None:
        document = show_again(store, shown, study, why or f"check {name}")
        return CheckResult(document, folder, nothing_new=True)
    for one in plan.configurations:
        trained = next(m for m in plan.members() if m.key == one.key)
        fingerprint = validate_experiment(trained.experiment, locations, workers)
    with claim_name(store, name, plan.first(), fingerprint):
        plan.write(folder)
        resources = Resources(workers, concurrent, address)
        session = _Session(name, study, why, kind, plan, locations, search, say)
        return session.run(space_name, fingerprint, resources, extra or {})


@dataclass(frozen=True)
class _Session:
    name: str
    study: str
    why: str
    kind: Kind
    plan: CheckPlan
    locations: Locations
    search: FinishedSearch | None
    say: Callable[[str], None]

    def run(
        self, space_name: str, fingerprint: str, resources: Resources, extra: Mapping[str, Any]
    ) -> CheckResult:
        folder, ledger = self.locations.store.search_folder(self.name), Ledger(self.locations.store)
        seen = _seen_before(ledger.entries(self.study), self.name, (folder / DOCUMENT).is_file())
        series = RunSeries(self.locations, self.name, space_name, self.plan.first(), fingerprint, ROLE)
        series.parent.tag({tags.CHECKED: self.study})
        try:
            opened = open_test(
                self.plan.first(),
                self.locations,
                kind=self.kind,
                study=self.study,
                why=self.why or f"check {self.name}",
                check=self.name,
                configurations=[one.digest for one in self.plan.configurations],
                run_ids=[series.parent.run_id],
            )
            openings = [entry.to_dict() for entry in ledger.entries(self.study)]
            write_openings(openings, folder, series.tracker, series.parent.run_id)
            failed, stopped = self._train(series, opened, resources)
            document = self._about(space_name, opened, failed, stopped)
            document |= {"openings": openings, "again": seen, **extra}
            if not stopped:
                threads = torch.get_num_threads()
                torch.set_num_threads(threads_of(usable_cores()))
                try:
                    found = results(self.plan, series, opened.images, self.search, self.say)
                finally:
                    torch.set_num_threads(threads)
                document = plain(document | found)
                log_figures(document, series.tracker, series.parent.run_id)
                write(document, folder, series.tracker, series.parent.run_id)
        except BaseException as error:
            series.close("interrupted", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        series.close("interrupted" if stopped else "complete", INTERRUPTED if stopped else "")
        return CheckResult(document, folder, stopped)

    def _train(
        self, series: RunSeries, opened: OpenedTest, resources: Resources
    ) -> tuple[dict[str, str], bool]:
        """(member → why it failed, whether it was stopped before its end)."""
        members = {one.name: one for one in self.plan.members()}
        left = {name: one for name, one in members.items() if series.result(name) is None}
        if not left:
            return {}, False
        failed: dict[str, str] = {}
        self.say(f"{len(left)} of {len(members)} models to train")
        metric = self.plan.first().objective.metric
        steps = {name: one.experiment.max_steps for name, one in left.items()}
        pace = CheckProgress(steps, len(members) - len(left), metric, self.say)
        with worker_pool(resources, self.say) as pool:
            experiments = {name: one.experiment for name, one in left.items()}
            for name, run, report in series.train(pool, experiments, opened.entry):
                if report.failure:
                    failed[name] = report.failure
                elif report.finished:
                    _store(series, left[name], run, report.best_score, report.best_step)
                pace.heard(name, report)
        return failed, any(series.result(name) is None and name not in failed for name in left)

    def _about(
        self,
        space_name: str,
        opened: OpenedTest,
        failed: dict[str, str],
        stopped: bool,
    ) -> dict[str, Any]:
        """The parts of the document that do not come from the models."""
        versions = version_tags()
        return {
            "name": self.name,
            "search": self.search.name if self.search else "",
            "space_name": space_name,
            "data": opened.entry.data,
            "fingerprint": opened.entry.fingerprint,
            "protocol": self.plan.protocol,
            "folds": self.plan.folds,
            "repeats": self.plan.repeats,
            "metric": METRIC,
            "level": LEVEL,
            "commit": versions.pop("git.commit", ""),
            "versions": {key.removeprefix("version."): value for key, value in versions.items()},
            "baseline": self.plan.baseline,
            "stopped": stopped,
            "failed": failed,
            "plan": self.plan.digest,
            "models": len(self.plan.members()),
            "configurations": [],
        }


def _store(series: RunSeries, member: PlannedModel, run: TrackedRun, score: float | None, step: int) -> None:
    if score is None:
        raise UserError(f"{member.name} was never validated; validate_every must not exceed max_steps")
    run.tag({tags.CONFIGURATION: member.key, tags.FOLD: member.fold})
    series.store_result(member.name, {"run_id": run.run_id, "step": step, "validation": score})


def _check_name(store: Store, name: str) -> None:
    """A search keeps its own folder and runs."""
    run = Tracker(store).find(name)
    role = run.data.tags.get(tags.ROLE, "run") if run else ROLE
    if role != ROLE:
        raise UserError(f"'{name}' is the name of a {role}; choose another --name for the check.")


def _seen_before(entries: Sequence[LedgerEntry], name: str, has_table: bool) -> bool:
    """Whether somebody had figures of this study before: sessions of this check that ended without a table
    showed none."""
    return has_table or any(entry.check != name for entry in entries)
