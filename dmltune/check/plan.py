"""The plan of a check: what is trained under its name.

It is stored in the check's folder and only grows. A later call that requests less leaves nothing out:
whatever was measured on test classes is reported.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmltune.check.configurations import Configuration
from dmltune.check.parsing import parse
from dmltune.core.checkpoint import replace_file
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.store import require_regular

FILE = "plan.json"
FOLD_SEEDS = 1000  # fold f has the seeds from 1000 (f + 1) on; searches use smaller ones


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
    protocol: str
    folds: int
    repeats: int
    baseline: str | None
    configurations: tuple[Configuration, ...]

    @classmethod
    def read(cls, folder: Path) -> CheckPlan | None:
        """Return the plan of the check in this folder; None when it has none."""
        path = folder / FILE
        if not path.exists():
            return None
        require_regular(path)
        remedy = "Restore it from a backup, or choose another --name."
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is damaged ({type(error).__name__}). {remedy}") from None
        return parse(cls, tree, str(path), remedy)

    def write(self, folder: Path) -> None:
        replace_file(folder / FILE, self._text().encode())

    @property
    def digest(self) -> str:
        """Name everything that is to be trained."""
        return text_digest(self._text())

    def extended(self, name: str, others: Iterable[Configuration], folds: int, repeats: int) -> CheckPlan:
        """Return the larger numbers of folds and repeats, and the configurations of both.

        A key keeps its meaning. A configuration that is here under another key is not trained twice.
        """
        by_key = {each.key: each for each in self.configurations}
        for each in others:
            own = by_key.get(each.key)
            if own is not None and own.digest != each.digest:
                changes = "; ".join(own.experiment.fixed().differences(each.experiment.fixed()))
                raise UserError(
                    f"check '{name}' has another {each.key}: {changes}. Choose another --name, or take the "
                    "change back to continue it."
                )
            same = next((known for known in by_key.values() if known.digest == each.digest), each)
            by_key[same.key] = replace(same, labels=tuple(dict.fromkeys((*same.labels, *each.labels))))
        return replace(
            self,
            folds=max(self.folds, folds),
            repeats=max(self.repeats, repeats),
            configurations=tuple(by_key.values()),
        )

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

    def key_of(self, digest: str | None) -> str | None:
        return next((each.key for each in self.configurations if each.digest == digest), None)

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
        tree: Mapping[str, Any] = vars(self) | {"configurations": configurations}
        return json.dumps(tree, indent=1)


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stored_digest(folder: Path) -> str:
    """Return the digest of the stored text, which an older version may have written otherwise."""
    return text_digest((folder / FILE).read_text(encoding="utf-8"))
