"""How far something is and how long it still takes: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

EVERY_SECONDS = 10.0

Advance = Callable[[str, int, int], None]  # what is done, how much of it, of how much (0: not known)


@contextlib.contextmanager
def bar(unit: str) -> Iterator[Advance]:
    """On stderr, which is for people: stdout belongs to the result. The unit "bytes" is written as MB."""
    with _terminal(unit) if sys.stderr.isatty() else contextlib.nullcontext(_log(unit)) as advance:
        yield advance


@contextlib.contextmanager
def _terminal(unit: str) -> Iterator[Advance]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn(),
        progress.TextColumn("" if unit == "bytes" else unit),
        progress.TimeRemainingColumn(compact=True),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("", total=None)
        doing = ""

        def advance(what: str, done: int, total: int) -> None:
            nonlocal doing
            if what != doing:
                display.reset(task, description=what)
                doing = what
            display.update(task, completed=done, total=total or None)

        yield advance


def _log(unit: str, now: Callable[[], float] = time.monotonic) -> Advance:
    began = spoke = now()
    doing = ""

    def advance(what: str, done: int, total: int) -> None:
        nonlocal began, spoke, doing
        moment = now()
        if what != doing:
            began, spoke, doing = moment, moment, what
        if moment - spoke < EVERY_SECONDS or not done:
            return
        spoke = moment
        print(f"{what}: {_so_far(done, total, unit, moment - began)}", file=sys.stderr, flush=True)

    return advance


def _so_far(done: int, total: int, unit: str, seconds: float) -> str:
    """`4,096 of 11,788 images, 12s left`."""
    from dmltune.report.formatting import clock

    amounts = [f"{number / 1e6:,.1f}" if unit == "bytes" else f"{number:,}" for number in (done, total)]
    named = "MB" if unit == "bytes" else unit
    if not total:
        return f"{amounts[0]} {named}"
    return f"{amounts[0]} of {amounts[1]} {named}, {clock(seconds * (total - done) / done)} left"
