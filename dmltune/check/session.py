"""Train, measure and compare the configurations of a check under folds × seeds.

plan.json     what is to be trained; it only grows
trials/…      the models, as a search has them; test.safetensors in each
check.json    the document, written when every model is there: figures on test classes are not shown before
report.html   the same as a page
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dmltune import tags
from dmltune.check.artifacts import (
    DOCUMENT,
    PAGE,
    finished_document,
    log_figures,
    show_again,
    write,
    write_openings,
)
from dmltune.check.document import CheckDocument
from dmltune.check.measurements import measured
from dmltune.check.plan import CheckPlan, PlannedModel
from dmltune.check.progress import CheckProgress
from dmltune.check.request import ROLE, CheckRequest, PreparedCheck, prepare_check
from dmltune.errors import UserError
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.provenance import version_tags
from dmltune.resources import Locations, Resources
from dmltune.runs import CONTINUES, TrackedRun
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.run_series import RunSeries
from dmltune.train.test_access import OpenedTest, open_test
from dmltune.train.worker_pool import worker_pool


@dataclass(frozen=True)
class CheckResult:
    """`nothing_new`: it was finished before; nothing was trained, no test class read."""

    document: CheckDocument
    folder: Path
    nothing_new: bool = False

    @property
    def stopped(self) -> bool:
        """True when the check was stopped before its end. It has no figures yet."""
        return self.document.stopped

    @property
    def page(self) -> Path | None:
        path = self.folder / PAGE
        return path if path.is_file() else None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; figures are fractions."""
        return self.document.to_dict()


def check_configurations(
    request: CheckRequest,
    resources: Resources,
    locations: Locations,
    log: Callable[[str], None] = lambda text: None,
) -> CheckResult:
    """Train what is missing of configurations × folds × repeats, and compare them.

    The same name continues where it was stopped; more repeats, folds or configurations under it only add.
    """
    return run_check(prepare_check(request, locations), resources, locations, log)


def run_check(
    prepared: PreparedCheck, resources: Resources, locations: Locations, log: Callable[[str], None]
) -> CheckResult:
    """Run what `prepare_check` returned."""
    request, plan, name = prepared.request, prepared.plan, prepared.name
    folder = locations.store.search_folder(name)
    if prepared.note:
        log(prepared.note)
    if (request.repeats or plan.repeats) < plan.repeats or (request.folds or plan.folds) < plan.folds:
        log(f"{name} has {plan.folds} folds × {plan.repeats} repeats; all that was measured is shown")
    if (finished := finished_document(folder, plan)) is not None:
        return CheckResult(show_again(locations.store, finished, request), folder, nothing_new=True)
    for member in plan.members()[: len(plan.configurations)]:  # the first model of each
        fingerprint = validate_experiment(member.experiment, locations, resources.workers)
    with claim_name(locations.store, name, plan.first(), fingerprint):
        plan.write(folder)
        return _Session(request, plan, resources, locations, log).run(fingerprint)


@dataclass(frozen=True)
class _Session:
    """One call of a check that has something to train or measure."""

    request: CheckRequest
    plan: CheckPlan
    resources: Resources
    locations: Locations
    log: Callable[[str], None]

    @property
    def _study(self) -> str:
        return self.request.study or self.request.name

    def run(self, fingerprint: str) -> CheckResult:
        request, plan = self.request, self.plan
        folder, ledger = self.locations.store.search_folder(request.name), Ledger(self.locations.store)
        seen_before = (folder / DOCUMENT).is_file() or any(
            entry.check != request.name for entry in ledger.entries(self._study)
        )  # an earlier session of this check without a document showed no figures
        series = RunSeries(self.locations, request.name, request.space_name, plan.first(), fingerprint, ROLE)
        series.parent.tag({tags.CHECKED: self._study})
        try:
            opened = open_test(
                plan.first(),
                self.locations,
                kind=request.kind,
                study=self._study,
                why=request.why,
                check=request.name,
                configurations=[each.digest for each in plan.configurations],
                run_ids=[series.parent.run_id],
            )
            openings = tuple(ledger.entries(self._study))
            write_openings(openings, folder, series.tracker, series.parent.run_id)
            failed, stopped = self._train(series, opened)
            document = self._document(opened, openings, seen_before, failed, stopped)
            if not stopped:
                document = self._measure(document, series, opened)
                log_figures(document, series.tracker, series.parent.run_id)
                write(document, folder, series.tracker, series.parent.run_id)
        except BaseException as error:
            series.close("interrupted", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        series.close("interrupted" if stopped else "complete", CONTINUES if stopped else "")
        return CheckResult(document, folder)

    def _train(self, series: RunSeries, opened: OpenedTest) -> tuple[dict[str, str], bool]:
        """Return member → reason of its failure, and whether training was stopped before its end."""
        members = {member.name: member for member in self.plan.members()}
        left = {name: member for name, member in members.items() if series.result(name) is None}
        if not left:
            return {}, False
        failed: dict[str, str] = {}
        self.log(f"{len(left)} of {len(members)} models to train")
        metric = self.plan.first().objective.metric
        experiments = {name: member.experiment for name, member in left.items()}
        steps = {name: experiment.max_steps for name, experiment in experiments.items()}
        progress = CheckProgress(steps, len(members) - len(left), metric, self.log)
        with worker_pool(self.resources, self.log) as pool:
            for name, run, report in series.train(pool, experiments, opened.entry):
                if report.failure:
                    failed[name] = report.failure
                elif report.finished:
                    _store_result(series, left[name], run, report.best_score, report.best_step)
                progress.update(name, report)
        return failed, any(series.result(name) is None and name not in failed for name in left)

    def _measure(self, document: CheckDocument, series: RunSeries, opened: OpenedTest) -> CheckDocument:
        threads = torch.get_num_threads()
        torch.set_num_threads(threads_of(usable_cores()))
        try:
            return measured(document, self.plan, series, opened.images, self.request.search, self.log)
        finally:
            torch.set_num_threads(threads)

    def _document(
        self,
        opened: OpenedTest,
        openings: tuple[LedgerEntry, ...],
        seen_before: bool,
        failed: dict[str, str],
        stopped: bool,
    ) -> CheckDocument:
        """Return the parts of the document that do not come from the models."""
        versions = version_tags()
        return CheckDocument(
            name=self.request.name,
            search=self.request.search.name if self.request.search else "",
            space_name=self.request.space_name,
            data=opened.entry.data,
            fingerprint=opened.entry.fingerprint,
            protocol=self.plan.protocol,
            folds=self.plan.folds,
            repeats=self.plan.repeats,
            commit=versions.pop("git.commit", ""),
            versions={key.removeprefix("version."): value for key, value in versions.items()},
            baseline=self.plan.baseline,
            stopped=stopped,
            failed=failed,
            plan=self.plan.digest,
            planned_models=len(self.plan.members()),
            openings=openings,
            seen_before=seen_before,
            warning=self.request.warning,
            baseline_search=self.request.baseline_search,
        )


def _store_result(
    series: RunSeries, member: PlannedModel, run: TrackedRun, score: float | None, step: int
) -> None:
    if score is None:
        raise UserError(f"{member.name} was never validated; validate_every must not exceed max_steps")
    run.tag({tags.CONFIGURATION: member.key, tags.FOLD: member.fold})
    series.store_result(member.name, {"run_id": run.run_id, "step": step, "validation": score})
