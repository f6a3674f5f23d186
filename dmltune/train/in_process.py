"""Trainings one after another in this process: for small ones, where Ray's start would take longest."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from dmltune.core.run import Diverged
from dmltune.core.threads import torch_threads
from dmltune.errors import UserError
from dmltune.resources import Locations, Resources
from dmltune.store import Store
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import threads_of, usable_cores
from dmltune.train.trial import run_trial


class TrainingPool(Protocol):
    """A worker pool, or this process."""

    def train(self, orders: Iterable[Order]) -> Iterator[tuple[str, TrialReport]]: ...


@contextlib.contextmanager
def training_pool(
    resources: Resources, locations: Locations, log: Callable[[str], None] = lambda text: None
) -> Iterator[TrainingPool]:
    """Run what fixed experiments are trained on until the block ends."""
    if resources.in_process:
        yield InProcessPool(locations.store)
        return
    from dmltune.train.worker_pool import worker_pool

    with worker_pool(resources, locations, log) as pool:
        yield pool


@dataclass(frozen=True)
class InProcessPool:
    """The `train` of a worker pool, without workers."""

    store: Store

    def train(self, orders: Iterable[Order]) -> Iterator[tuple[str, TrialReport]]:
        """Yield (order id, report) for every validation of every order."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        for order in orders:
            threads = threads_of(usable_cores())
            self.store.bring(Path(order.folder))
            with torch_threads(threads):
                for report in _reports(replace(order, threads=threads), device):
                    yield order.id, report


def _reports(order: Order, device: torch.device) -> Iterator[TrialReport]:
    """Yield the reports of one order; an error of the training is its last one, as in a worker."""
    try:
        yield from run_trial(order, device)
    except (Diverged, UserError) as error:
        yield TrialReport.failed(str(error))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        yield TrialReport.failed(reason, traceback.format_exc())
