"""Progress and time left: a bar on a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from dmltune.cli.output import say, terminal_environment
from dmltune.errors import printable
from dmltune.weights.progress import progress_to

EVERY_SECONDS = 10.0

Advance = Callable[[str, int, int], None]  # the task, how much is done, of how much (0: not known)


@contextlib.contextmanager
def bar(unit: str) -> Iterator[Advance]:
    """Show progress on stderr: stdout is for the result. The unit "bytes" is written as MB."""
    with _terminal(unit) if sys.stderr.isatty() else contextlib.nullcontext(_log(unit)) as advance:
        yield advance


@contextlib.contextmanager
def shown_fetches() -> Iterator[None]:
    """Show the progress of weights that are fetched in this block; a bar ends with its file."""
    with contextlib.ExitStack() as bars:
        advance: Advance | None = None

        def show(what: str, done: int, total: int) -> None:
            nonlocal advance
            advance = advance or bars.enter_context(bar("bytes"))
            advance(what, done, total)
            if total and done >= total:
                bars.close()
                advance = None

        with progress_to(show):
            yield


@contextlib.contextmanager
def _terminal(unit: str) -> Iterator[Advance]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn(),
        progress.TransferSpeedColumn() if unit == "bytes" else progress.TextColumn(unit),
        progress.TimeRemainingColumn(compact=True),
    )
    with progress.Progress(
        *columns, console=Console(stderr=True, _environ=terminal_environment()), transient=True
    ) as display:
        task = display.add_task("", total=None)
        current = ""

        def advance(what: str, done: int, total: int) -> None:
            nonlocal current
            if what != current:
                display.reset(task, description=printable(what))
                current = what
            display.update(task, completed=done, total=total or None)

        yield advance


def _log(unit: str, now: Callable[[], float] = time.monotonic) -> Advance:
    began = printed = now()
    current = ""

    def advance(what: str, done: int, total: int) -> None:
        nonlocal began, printed, current
        moment = now()
        if what != current:
            began, printed, current = moment, moment, what
        if moment - printed < EVERY_SECONDS or not done:
            return
        printed = moment
        say(f"{what}: {_amount(done, total, unit, moment - began)}")

    return advance


def _amount(done: int, total: int, unit: str, seconds: float) -> str:
    """Return `4,096 of 11,788 images, 12s left`, or `1.0 of 45.0 MB, 2.1 MB/s, 21s left`."""
    from dmltune.report.formatting import clock

    amounts = [f"{number / 1e6:,.1f}" if unit == "bytes" else f"{number:,}" for number in (done, total)]
    speed = f", {done / 1e6 / seconds:.1f} MB/s" if unit == "bytes" and seconds > 0 else ""
    unit = "MB" if unit == "bytes" else unit
    if not total:
        return f"{amounts[0]} {unit}{speed}"
    return f"{amounts[0]} of {amounts[1]} {unit}{speed}, {clock(seconds * (total - done) / done)} left"
