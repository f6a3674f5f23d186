"""What a check of one name is to train: kept in its folder, and only ever added to.

The table shows whatever was asked under the name. Nothing that was trained can be left out later by asking
for less: what was measured on test classes is reported.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dmltune.check.configurations import Configuration
from dmltune.core.checkpoint import replace_file
from dmltune.data import splits
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.train.build import training_images

FILE = "plan.json"
REPEATS = 3
SEEDS = 1000  # a fold has so many of its own, fold 0 from here on; searches use smaller ones
FAIR = "fair"


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
        """The plan of a check that was begun here."""
        path = folder / FILE
        if not path.is_file():
            return None
        found = json.loads(path.read_text())
        listed = [
            Configuration(
                one["key"], tuple(one["labels"]), Experiment.from_dict(one["experiment"]), one["values"]
            )
            for one in found.pop("configurations")
        ]
        return cls(**found, configurations=tuple(listed))

    def write(self, folder: Path) -> None:
        replace_file(folder / FILE, self._text().encode())

    @property
    def digest(self) -> str:
        """Names everything that is to be trained."""
        return hashlib.sha256(self._text().encode()).hexdigest()[:16]

    def with_more(self, name: str, others: Iterable[Configuration], folds: int, repeats: int) -> CheckPlan:
        """As many folds and repeats as asked before or now, and the configurations of both. A key keeps its
        meaning; what is here already under another key is not trained twice.
        """
        listed = {one.key: one for one in self.configurations}
        for one in others:
            before = listed.get(one.key)
            if before is not None and before.digest != one.digest:
                changes = "; ".join(before.experiment.fixed().differences(one.experiment.fixed()))
                raise UserError(
                    f"check '{name}' has another {one.key}: {changes}. Choose another --name, or take the "
                    "change back to continue it."
                )
            same = next((known for known in listed.values() if known.digest == one.digest), None)
            labels = dict.fromkeys((*(same.labels if same else ()), *one.labels))
            listed[(same or one).key] = replace(same or one, labels=tuple(labels))
        return replace(
            self,
            folds=max(self.folds, folds),
            repeats=max(self.repeats, repeats),
            configurations=tuple(listed.values()),
        )

    def members(self) -> list[PlannedModel]:
        """In the order of training: every configuration gets its first model before any gets its second, so
        that what is there when somebody stops can be compared.
        """
        return [
            PlannedModel(
                f"{one.key}-fold{fold}-seed{seed}", one.key, fold, seed, self._member(one, fold, seed)
            )
            for repeat in range(self.repeats)
            for fold in range(self.folds)
            for one in self.configurations
            for seed in [self.seeds(fold)[repeat]]
        ]

    def seeds(self, fold: int) -> list[int]:
        """Of the repeats of a fold; none that the search used, and none of another fold: what the same first
        weights do on all folds alike would look like certainty (intervals.py). Configurations share them, so
        that their models can be compared in pairs.
        """
        used = {one.experiment.seed for one in self.configurations}
        free: Iterator[int] = (seed for seed in itertools.count(SEEDS * (fold + 1)) if seed not in used)
        return list(itertools.islice(free, self.repeats))

    def first(self) -> Experiment:
        """What stands for the check where an experiment is compared: the same for every session."""
        return self._member(self.configurations[0], 0, self.seeds(0)[0])

    def _member(self, one: Configuration, fold: int, seed: int) -> Experiment:
        where = {"objective.protocol": self.protocol, "fold": fold, "seed": seed}
        return one.experiment.fixed().with_values(where)

    def _text(self) -> str:
        tree = asdict(replace(self, configurations=()))
        tree["configurations"] = [
            {
                "key": one.key,
                "labels": list(one.labels),
                "values": dict(one.values),
                "experiment": one.experiment.fixed().to_dict(),
            }
            for one in self.configurations
        ]
        return json.dumps(tree, indent=1)


def protocol_for(experiment: Experiment, data_root: Path | None) -> tuple[str, str]:
    """(protocol, what has to be said about it): fair where the data allow it, else the next smaller one."""
    root = str(Path(data_root).absolute()) if data_root else None
    asked = experiment.fixed().with_values({"objective.protocol": FAIR, "fold": 0})
    train = training_images(asked, root)
    if only := getattr(train, "protocol", ""):
        return str(only), f"{train.name} has classes for protocol {only} alone, so that is checked"
    enough = {
        name: parts
        for name, parts in splits.PARTITIONS.items()
        if 2 * parts <= train.num_classes and parts <= splits.PARTITIONS[FAIR]
    }
    if not enough:
        raise UserError(
            f"a check needs {splits.FEWEST} classes to train on; {train.name} has {train.num_classes}. "
            "Add classes."
        )
    best = max(enough, key=enough.__getitem__)
    if best == FAIR:
        return FAIR, ""
    needed = 2 * splits.PARTITIONS[FAIR]
    return (
        best,
        f"{train.num_classes} training classes are too few for protocol fair ({needed}): {best} is used",
    )


def planned(
    name: str,
    before: CheckPlan | None,
    configurations: list[Configuration],
    baseline: str | None,
    protocol: str,
    folds: int | None,
    repeats: int | None,
) -> CheckPlan:
    """The plan of this call, on top of what was asked under the name before."""
    most = splits.folds(protocol)
    if folds is not None and not 1 <= folds <= most:
        raise UserError(f"--folds must be 1 to {most} under protocol {protocol}; got {folds}")
    if repeats is not None and not 1 <= repeats < SEEDS:
        raise UserError(f"--repeats must be 1 to {SEEDS - 1}; got {repeats}")
    if before is None:
        return CheckPlan(protocol, folds or most, repeats or REPEATS, baseline, tuple(configurations))
    if before.protocol != protocol:
        raise UserError(
            f"check '{name}' was begun under protocol {before.protocol}; now it is {protocol}. "
            "Choose another --name."
        )
    plan = before.with_more(name, configurations, folds or 1, repeats or 1)
    key = _same_key(plan, configurations, baseline)
    if before.baseline and key and key != before.baseline:
        raise UserError(
            f"check '{name}' compares with {before.baseline}; now it would be {key}. Choose another --name."
        )
    return replace(plan, baseline=before.baseline or key)


def _same_key(plan: CheckPlan, given: Iterable[Configuration], key: str | None) -> str | None:
    """The key in the plan of the configuration that the caller calls `key`."""
    wanted: Mapping[str, Any] = {one.key: one.digest for one in given}
    return next((one.key for one in plan.configurations if one.digest == wanted.get(key or "")), None)
