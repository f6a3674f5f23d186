"""Train, measure and compare the configurations of a check under folds × seeds.

plan.json     what is to be trained; it only grows
trials/…      the models, as a search has them; test.safetensors in each
check.json    the document, written when every model is there: figures on test classes are not shown before
report.html   the same as a page
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmltune import tags
from dmltune.check import artifacts
from dmltune.check.document import CheckDocument
from dmltune.check.measured_models import gallery_of
from dmltune.check.measurements import measured
from dmltune.check.plan import ROLE, CheckPlan, CheckRequest, PreparedCheck
from dmltune.check.progress import CheckProgress
from dmltune.check.protocols import reads_test_classes
from dmltune.check.validation_scores import validated
from dmltune.core.threads import torch_threads
from dmltune.errors import UserError
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.provenance import version_tags
from dmltune.resources import Locations, Resources
from dmltune.runs import CONTINUES, closed_on_error
from dmltune.train.build import validate_experiment
from dmltune.train.in_process import training_pool
from dmltune.train.name_claim import claim_name
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.run_series import RunSeries
from dmltune.train.test_access import OpenedTest, open_test


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
        path = self.folder / artifacts.PAGE
        return path if path.is_file() else None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; figures are fractions."""
        return self.document.to_dict()


def run_check(
    prepared: PreparedCheck, resources: Resources, locations: Locations, log: Callable[[str], None]
) -> CheckResult:
    """Train what is missing of configurations × folds × repeats, and compare them.

    The same name continues where it was stopped; more repeats, folds or configurations under it only add.
    """
    request, plan, name = prepared.request, prepared.plan, prepared.name
    folder = locations.store.search_folder(name)
    if prepared.note:
        log(prepared.note)
    if (request.repeats or plan.repeats) < plan.repeats or (request.folds or plan.folds) < plan.folds:
        log(f"{name} has {plan.folds} folds × {plan.repeats} repeats; all that was measured is shown")
    if (document := artifacts.finished_document(folder, plan)) is not None:
        document = artifacts.show_again(locations.store, document, request)
        return CheckResult(document, folder, nothing_new=True)
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

    def run(self, fingerprint: str) -> CheckResult:
        request, plan = self.request, self.plan
        folder, ledger = self.locations.store.search_folder(request.name), Ledger(self.locations.store)
        seen_before = (folder / artifacts.DOCUMENT).is_file() or any(
            entry.check != request.name for entry in ledger.entries(request.study)
        )  # an earlier session of this check without a document showed no figures
        series = RunSeries(self.locations, request.name, request.space_name, plan.first(), fingerprint, ROLE)
        series.parent.tag({tags.CHECKED: request.study})
        with closed_on_error(series.close):
            opened = self._open_test(series) if reads_test_classes(plan.protocol) else None
            openings = tuple(ledger.entries(request.study)) if opened else ()
            document = self._document(opened, fingerprint, openings, seen_before)
            artifacts.write_openings(document, folder, series.tracker, series.parent.run_id)
            failed, stopped = self._train(series, opened)
            document = replace(document, failed=failed, stopped=stopped)
            if not stopped:
                self.locations.store.bring(folder)  # the figures of models of earlier sessions
                if opened is None:
                    document = validated(document, plan, series)
                else:
                    with torch_threads(threads_of(usable_cores())):
                        document = measured(document, plan, series, opened.images, request.search, self.log)
                        pictures = gallery_of(document, series, opened.images)
                    if pictures:
                        artifacts.write_gallery(pictures, folder)
                    artifacts.log_figures(document, series.tracker, series.parent.run_id)
                artifacts.write(document, folder, series.tracker, series.parent.run_id)
        series.close(CONTINUES if stopped else "")
        return CheckResult(document, folder)

    def _open_test(self, series: RunSeries) -> OpenedTest:
        request, plan = self.request, self.plan
        warning = request.warning(plan.protocol)
        return open_test(
            plan.first(),
            self.locations,
            kind=request.kind,
            study=request.study,
            why="; ".join(filter(None, (request.why, warning))),
            check=request.name,
            configurations=[each.digest for each in plan.configurations],
            run_ids=[series.parent.run_id],
        )

    def _train(self, series: RunSeries, opened: OpenedTest | None) -> tuple[dict[str, str], bool]:
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
        with training_pool(self.resources, self.locations, self.log) as pool:
            for name, run, report in series.train(pool, experiments, opened.entry if opened else None):
                if report.failure:
                    failed[name] = report.failure
                elif report.finished:
                    if (score := report.best_score) is None:
                        raise UserError(
                            f"{name} was never validated; validate_every must not exceed max_steps"
                        )
                    run.tag({tags.CONFIGURATION: left[name].key, tags.FOLD: left[name].fold})
                    result = {"run_id": run.run_id, "step": report.best_step, "validation": score}
                    series.store_result(name, result)
                progress.update(name, report)
        return failed, any(series.result(name) is None and name not in failed for name in left)

    def _document(
        self,
        opened: OpenedTest | None,
        fingerprint: str,
        openings: tuple[LedgerEntry, ...],
        seen_before: bool,
    ) -> CheckDocument:
        """Return the parts of the document that do not come from the trainings."""
        versions = version_tags()
        return CheckDocument(
            name=self.request.name,
            search=self.request.search.name if self.request.search else "",
            space_name=self.request.space_name,
            data=self.plan.first().data.name,
            fingerprint=opened.entry.fingerprint if opened else fingerprint,
            protocol=self.plan.protocol,
            folds=self.plan.folds,
            repeats=self.plan.repeats,
            commit=versions.pop("git.commit", ""),
            versions={key.removeprefix("version."): value for key, value in versions.items()},
            baseline=self.plan.baseline,
            plan=self.plan.digest,
            planned_models=len(self.plan.members()),
            openings=openings,
            seen_before=seen_before,
            warning=self.request.warning(self.plan.protocol),
            validation_only=opened is None,
            baseline_search=self.request.baseline_search,
        )
