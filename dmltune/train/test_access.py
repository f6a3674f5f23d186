"""The one door to the test classes: who comes through it is written down before anything is handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dmltune.data.images import ImageSet
from dmltune.experiment import Experiment
from dmltune.ledger import Kind, Ledger, LedgerEntry
from dmltune.store import Store
from dmltune.train.inference import unseen_images


@dataclass(frozen=True)
class Opened:
    """The test half, and the line that says so; workers who have to open it too are given `entry.id`."""

    images: ImageSet
    entry: LedgerEntry


def open_test(
    experiment: Experiment,
    data_root: Path | None,
    store: Store,
    *,
    kind: Kind,
    study: str,
    why: str,
    check: str = "",
    configurations: Sequence[str] = (),
    run_ids: Sequence[str] = (),
) -> Opened:
    """Nobody has the images, a label or the fingerprint before the line is on the disk. Without a data set
    nothing is opened and nothing written.
    """
    root = str(Path(data_root).absolute()) if data_root else None
    images = unseen_images(experiment, root, opening=kind)
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
    return Opened(images, Ledger(store).write(entry))
