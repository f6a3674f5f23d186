"""The test classes. They are read here alone, with an entry of the test ledger.

`search` and `train` write no entry, so their orders carry none and their workers cannot read a test image.
Under protocol `conventional` training itself reads them; then the entry says "monitored". Under `within` and
`all_classes` the classes of both halves train; the entry of `all_classes` says "trained".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dmltune.data import elsewhere
from dmltune.data.elsewhere import HalfRequest
from dmltune.data.images import ImageSet, Missing
from dmltune.data.splits import ALL_CLASSES, CONVENTIONAL, WITHIN
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.ledger import Kind, Ledger, LedgerEntry
from dmltune.resources import Locations
from dmltune.train.build import framed


@dataclass(frozen=True)
class OpenedTest:
    """The test images, and the ledger's entry for them. Workers that need them too are given the entry."""

    images: ImageSet
    entry: LedgerEntry


def open_test(
    experiment: Experiment,
    locations: Locations,
    *,
    kind: Kind,
    study: str,
    why: str,
    check: str = "",
    configurations: Sequence[str] = (),
    run_ids: Sequence[str] = (),
) -> OpenedTest:
    """Return the test images once the entry is on the disk. Nothing is written when there are no images."""
    protocol = experiment.objective.protocol
    if protocol == WITHIN or (protocol == ALL_CLASSES and kind != "trained"):
        raise UserError(
            f"protocol {protocol} trains on the classes of both halves, so there are no test classes; "
            "train with another objective.protocol to measure on them"
        )
    images = _test_images(experiment, locations.absolute_root)
    entry = LedgerEntry(
        kind=kind,
        study=study,
        why=why,
        data=experiment.data.name,
        fingerprint=images.fingerprint,
        check=check,
        configurations=tuple(configurations),
        run_ids=tuple(run_ids),
    )
    return OpenedTest(images, Ledger(locations.store).write(entry))


def record_monitoring(experiment: Experiment, locations: Locations, study: str) -> None:
    """Write an entry for a search or training that reads test classes: conventional or all_classes."""
    if experiment.objective.protocol == ALL_CLASSES:
        why = "every class is trained on, for serving: none is left to measure on"
        open_test(experiment, locations, kind="trained", study=study, why=why)
    if experiment.objective.protocol == CONVENTIONAL:
        why = "conventional protocol: training is monitored and stopped on the test classes"
        open_test(experiment, locations, kind="monitored", study=study, why=why)


def opened_images(experiment: Experiment, data_root: str | None, entry: LedgerEntry | None) -> ImageSet:
    """Return the test images that `entry` is about. Without an entry, or with another one's: a UserError."""
    name = experiment.data.name
    if not isinstance(entry, LedgerEntry) or entry.data != name:
        raise UserError(
            f"the test classes of {name} are closed to search and train; "
            "dmltune check opens them, and so does dmltune evaluate --split test"
        )
    images = _test_images(experiment, data_root)
    if images.fingerprint != entry.fingerprint:
        raise UserError(
            f"the test ledger opened other images of {name}: fingerprint {entry.fingerprint}, here "
            f"{images.fingerprint}. Give every node the same data."
        )
    return images


def _test_images(experiment: Experiment, data_root: str | None) -> ImageSet:
    chosen = experiment.data
    images = _test_half(chosen.name, chosen.classes, data_root, chosen.path, chosen.missing, chosen.test_list)
    return framed(images, chosen.margin)


@lru_cache(maxsize=2)  # a warm worker reads a data set once
def _test_half(
    name: str,
    classes: int | None,
    data_root: str | None,
    path: str | None,
    missing: Missing,
    test_list: str | None,
) -> ImageSet:
    half = HalfRequest(name, "test", path, missing, test_list)
    return elsewhere.load(half, Path(data_root) if data_root else None).first_classes(classes)
