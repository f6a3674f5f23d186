"""Where a worker keeps the files of a trial: the driver's folder, or its own disk with a mirror.

A worker that shares the driver's folder works in it. Any other one works in a private folder below its
temporary folder: it begins with the mirrored checkpoint, mirrors every validation in the background, and
lets a finished trial go only when all files have arrived. The private folder is removed afterwards; one of a
process that was killed is removed by the next worker on that machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dmltune.core.checkpoint import CHECKPOINT
from dmltune.scratch import process_folder, remove_stale_folders
from dmltune.storage.folder_mirror import FolderMirror
from dmltune.storage.route import Route
from dmltune.storage.transport import FileTransport, patiently
from dmltune.train.orders import Order

LAST = f"last/{CHECKPOINT}"
IMAGES = "images/"  # earlier pictures are not needed to continue


@dataclass
class TrialPlace:
    """The order with the folder that this worker uses, and its mirror, if it has one."""

    order: Order
    mirror: FolderMirror | None = None

    def validated(self, finished: bool) -> None:
        """Note new files. After those of a finished trial have arrived, its report may leave."""
        if self.mirror is not None and finished:
            self.mirror.flush()
        elif self.mirror is not None:
            self.mirror.submit()


@contextlib.contextmanager
def trial_place(order: Order, first: bool, is_wanted: Callable[[], bool]) -> Iterator[TrialPlace]:
    """Yield the place of this order on this rank; only the `first` one sends files.

    When the trial is left in the middle, its files are sent if `is_wanted`, so that any node continues it.
    """
    route = Route(**order.route) if order.route else None
    if route is None or route.shared_here:
        yield TrialPlace(order)
        return
    remove_stale_folders()
    transport, prefix = route.transport(), route.name_of(order.folder)
    with process_folder("trial") as scratch:
        folder = scratch / "trial"
        folder.mkdir()
        here = replace(order, folder=str(folder))
        patiently(lambda: _fetch(transport, prefix, folder, everything=first), f"fetching {prefix}")
        if not first:
            yield TrialPlace(here)
            return
        mirror = FolderMirror(folder, prefix, transport, scratch, LAST, route.patience_s)
        mirror.note_fetched()
        try:
            yield TrialPlace(here, mirror)
            if is_wanted():
                mirror.flush()
        finally:
            mirror.close()


def _fetch(transport: FileTransport, prefix: str, folder: Path, everything: bool) -> None:
    """Bring the checkpoint here, and with `everything` what belongs to it."""
    if not transport.fetch(f"{prefix}/{LAST}", folder / LAST) or not everything:
        return
    for name in transport.names(prefix):
        own = name.removeprefix(f"{prefix}/")
        if own != LAST and not own.startswith(IMAGES):
            transport.fetch(name, folder / own)
