"""What a caller requests of a check, and the plan that follows: what is trained under its name.

The plan is stored in the check's folder and only grows. A later call that requests less leaves nothing out:
whatever was measured on test classes is reported.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmltune import tags
from dmltune.check.configurations import Configuration, validate_configurations
from dmltune.check.finished_search import FinishedSearch
from dmltune.check.parsing import parse, read_stored
from dmltune.check.protocols import protocol_for, with_patience_of
from dmltune.core.checkpoint import replace_file
from dmltune.data import splits
from dmltune.errors import UserError, readable
from dmltune.experiment import Experiment
from dmltune.ledger import Kind
from dmltune.resources import Locations
from dmltune.store import is_name
from dmltune.tracking import Tracker

FILE = "plan.json"
ROLE: tags.Role = "check"
REPEATS = 3
FOLD_SEEDS = 1000  # fold f has the seeds from 1000 (f + 1) on; searches use smaller ones
CHOSEN_ON_TEST = "conventional protocol: the search chose its winner on the test classes"
MONITORED_ON_TEST = "conventional protocol: these models were monitored and stopped on the test classes"


@dataclass(frozen=True)
class PlannedModel:
    """One model: a configuration, trained without one partition of the classes, from one seed."""

    name: str
    key: str
    fold: int
    seed: int
    experiment: Experiment


@dataclass(frozen=True)
class CheckPlan:
    """`clustering`: NMI and F1 of k-means are measured too. `rerank`: so is this re-ranking ("": none)."""

    protocol: str
    folds: int
    repeats: int
    baseline: str | None
    configurations: tuple[Configuration, ...]
    clustering: bool = False
    rerank: str = ""

    @classmethod
    def read(cls, folder: Path) -> CheckPlan | None:
        """Return the plan of the check in this folder; None when it has none."""
        path, remedy = folder / FILE, "Restore it from a backup, or choose another --name."
        plan = read_stored(path, remedy, lambda tree: parse(cls, tree, str(path), remedy))
        for each in () if plan is None else plan.configurations:
            if not is_name(each.key):  # folders of checkpoints have it
                raise UserError(f"{path} is damaged: a key is {readable(each.key)}. {remedy}")
        return plan

    def write(self, folder: Path) -> None:
        replace_file(folder / FILE, self._text().encode())

    @property
    def digest(self) -> str:
        """Name everything that is to be trained."""
        return text_digest(self._text())

    def members(self) -> list[PlannedModel]:
        """Return all models in the order of training.

        Every configuration gets its first model before any gets its second: the models of a check that is
        stopped can be compared.
        """
        return [
            PlannedModel(
                f"{each.key}-fold{fold}-seed{seed}", each.key, fold, seed, self._model(each, fold, seed)
            )
            for repeat in range(self.repeats)
            for fold in range(self.folds)
            for each in self.configurations
            for seed in [self.seeds(fold)[repeat]]
        ]

    def seeds(self, fold: int) -> list[int]:
        """Return the seeds of a fold's repeats.

        They are the same for all configurations: models are compared in pairs. None was used in the search,
        and none in another fold: the effect of shared first weights on all folds would narrow the intervals
        (statistics.py).
        """
        used = {each.experiment.seed for each in self.configurations}
        unused = (seed for seed in itertools.count(FOLD_SEEDS * (fold + 1)) if seed not in used)
        return list(itertools.islice(unused, self.repeats))

    def first(self) -> Experiment:
        """Return the experiment that identifies the check, the same for every session."""
        return self._model(self.configurations[0], 0, self.seeds(0)[0])

    def _model(self, configuration: Configuration, fold: int, seed: int) -> Experiment:
        values = {"objective.protocol": self.protocol, "fold": fold, "seed": seed}
        return configuration.experiment.fixed().with_values(values)

    def _text(self) -> str:
        configurations = [
            {
                "key": each.key,
                "labels": list(each.labels),
                "values": dict(each.values),
                "experiment": each.experiment.fixed().to_dict(),
            }
            for each in self.configurations
        ]
        own = {key: value for key, value in vars(self).items() if key != "rerank" or value}
        tree: Mapping[str, Any] = own | {"configurations": configurations}
        return json.dumps(tree, indent=1)


@dataclass(frozen=True)
class CheckRequest:
    """The configurations to compare with `baseline` (a key), under folds × repeats.

    None for `folds` and `repeats` means all folds and 3 repeats; an empty `protocol` fair, or the largest
    that has enough classes. Configurations get the protocol's patience, unless `own_patience`. The test
    ledger gets `study`, `why` and `kind`.
    """

    name: str
    configurations: tuple[Configuration, ...]
    baseline: str | None
    space_name: str
    study: str
    why: str
    kind: Kind = "check"
    folds: int | None = None
    repeats: int | None = None
    search: FinishedSearch | None = None  # whose winner is checked
    baseline_search: str = ""  # the name of the baseline's own search
    protocol: str = ""
    own_patience: bool = False
    clustering: bool = False
    rerank: str = ""

    def warning(self, protocol: str) -> str:
        """Return what every result of this check says first, or nothing."""
        if protocol == splits.CONVENTIONAL:
            return MONITORED_ON_TEST
        conventional = self.search is not None and self.search.protocol == splits.CONVENTIONAL
        return CHOSEN_ON_TEST if conventional else ""

    def extend(self, previous: CheckPlan | None, protocol: str) -> CheckPlan:
        """Return the plan of this request, on top of the `previous` one of its name.

        A key keeps its meaning. A configuration that `previous` has under another key is not trained twice.
        """
        most = splits.folds(protocol)
        if self.folds is not None and not 1 <= self.folds <= most:
            raise UserError(f"--folds must be 1 to {most} under protocol {protocol}; got {self.folds}")
        if self.repeats is not None and not 1 <= self.repeats < FOLD_SEEDS:
            raise UserError(f"--repeats must be 1 to {FOLD_SEEDS - 1}; got {self.repeats}")
        if previous is None:
            folds, repeats = self.folds or most, self.repeats or REPEATS
            return CheckPlan(
                *(protocol, folds, repeats, self.baseline, self.configurations, self.clustering), self.rerank
            )
        by_key, baseline = {each.key: each for each in previous.configurations}, None
        for each in self.configurations:
            own = by_key.get(each.key)
            if own is not None and own.digest != each.digest:
                changes = "; ".join(own.experiment.fixed().differences(each.experiment.fixed()))
                raise UserError(
                    f"check '{self.name}' has another {each.key}: {changes}. Choose another --name, or take "
                    "the change back to continue it."
                )
            same = next((known for known in by_key.values() if known.digest == each.digest), each)
            by_key[same.key] = replace(same, labels=tuple(dict.fromkeys((*same.labels, *each.labels))))
            if each.key == self.baseline:
                baseline = same.key
        if previous.baseline and baseline and baseline != previous.baseline:
            raise UserError(
                f"check '{self.name}' compares with {previous.baseline}, and now it would be {baseline}. "
                "Choose another --name."
            )
        return CheckPlan(
            previous.protocol,
            max(previous.folds, self.folds or 1),
            max(previous.repeats, self.repeats or 1),
            previous.baseline or baseline,
            tuple(by_key.values()),
            previous.clustering or self.clustering,
            self.rerank or previous.rerank,
        )


@dataclass(frozen=True)
class PreparedCheck:
    """A validated request with its plan; `note` is about the protocol."""

    request: CheckRequest
    plan: CheckPlan
    note: str
    new: bool

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def search(self) -> FinishedSearch:
        """The search that is checked. The checks of a paper's table have none."""
        assert self.request.search is not None
        return self.request.search


def prepare_check(request: CheckRequest, locations: Locations) -> PreparedCheck:
    """Validate the request against what exists under its name. Nothing is written or trained."""
    validate_configurations(request.configurations, request.baseline)
    previous = CheckPlan.read(locations.store.search_folder(request.name))
    if previous is not None:
        if request.protocol not in ("", previous.protocol):
            raise UserError(
                f"check '{request.name}' was made under protocol {previous.protocol}, and now it would be "
                f"{request.protocol}. Choose another --name."
            )
        request, note = _with_patience(request, previous.protocol, previous)
        return PreparedCheck(request, request.extend(previous, previous.protocol), note, new=False)
    run = Tracker(locations.store).find(request.name)
    if run is not None and (role := run.data.tags.get(tags.ROLE, "run")) != ROLE:
        raise UserError(f"'{request.name}' is the name of a {role}; choose another --name for the check.")
    protocol, note = request.protocol, ""
    if not protocol:
        protocol, note = protocol_for(request.configurations[0].experiment, locations.absolute_root)
    request, patience_note = _with_patience(request, protocol)
    notes = "; ".join(filter(None, (note, patience_note)))
    return PreparedCheck(request, request.extend(None, protocol), notes, new=True)


def _with_patience(
    request: CheckRequest, protocol: str, previous: CheckPlan | None = None
) -> tuple[CheckRequest, str]:
    """Return the request with the patience of its protocol, and a note when it has changed.

    A check that an older version began keeps the patience it has.
    """
    begun = {each.digest for each in previous.configurations} if previous else set()
    if request.own_patience or any(each.digest in begun for each in request.configurations):
        return request, ""
    configurations, note = with_patience_of(protocol, request.configurations)
    return replace(request, configurations=tuple(configurations)), note


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stored_digest(folder: Path) -> str:
    """Return the digest of the stored text, which an older version may have written otherwise."""
    return text_digest((folder / FILE).read_text(encoding="utf-8"))
