"""The table of a running search: running trials, the best so far, the latest; at most 80 columns.

Events arrive on the search's thread; rich draws on its own, from a copy of the board.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmltune.search.state import Event, SearchState, TrialRecord

WIDTH = 80
PARAMETERS_WIDTH = 38  # what the other columns leave
MESSAGE_SECONDS = 20.0
NOTHING: Mapping[str, Any] = {}
STYLES = {"running": "bold", "complete": "green", "pruned": "dim", "failed": "red", "interrupted": "yellow"}


@contextmanager
def live(console: Console, baseline: Mapping[str, Any] = NOTHING) -> Iterator[Callable[[Event], None]]:
    """Yields the function that the search gives its events to; the table stays on the screen at the end.

    `baseline` is what the baseline sets, by dotted key: its trial has no values of its own.
    """
    view = View(console, baseline)
    table = Live(get_renderable=view.render, console=console, refresh_per_second=4, transient=False)
    with silent_control_keys(), table:
        yield view.watch


@contextmanager
def silent_control_keys() -> Iterator[None]:
    """The terminal does not write ^C meanwhile: in a full line it would wrap and push the table down."""
    # A background job that touches the terminal would be stopped by it.
    if sys.stdin is None or not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    quiet = [*before]
    quiet[3] = before[3] & ~termios.ECHOCTL
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class View:
    """The latest board and message, drawn on demand."""

    def __init__(self, console: Console, baseline: Mapping[str, Any] = NOTHING) -> None:
        self.console = console
        self.baseline = dict(baseline)
        self.board: SearchState | None = None
        self.message, self.said = "starting …", -math.inf

    def watch(self, event: Event) -> None:
        if event.board is not None:
            self.board = event.board
        if event.kind == "message":
            self.message, self.said = event.text, time.monotonic()

    def render(self) -> RenderableType:
        if self.board is None:
            return Text(self.message, style="dim", overflow="ellipsis", no_wrap=True)
        board = self.board.snapshot()
        for row in board.rows.values():
            if row.role == "baseline":
                row.values = row.values or self.baseline
        parts: list[RenderableType] = [headline(board), table(board, rows=max(3, self.console.height - 7))]
        if not board.rows or time.monotonic() - self.said < MESSAGE_SECONDS:
            parts.append(Text(self.message, style="dim", overflow="ellipsis", no_wrap=True))
        return Group(*parts)


def headline(board: SearchState) -> Text:
    """`demo · glyphs-ccp`, below it `5 of 12 trials   best 41.2 % (trial 3)   2m10s, about 3m05s left`."""
    finished = sum(row.state not in ("running", "interrupted") for row in board.rows.values())
    parts = [f"{finished} of {board.trials_planned} trials"]
    if (best := board.best_row("reference", "search")) is not None:
        parts.append(f"best {formatting.percent(best.best)} % (trial {best.number})")
    time_words = formatting.clock(time.time() - board.started)
    left = board.seconds_left()
    parts.append(time_words if left is None else f"{time_words}, about {formatting.clock(left)} left")
    text = f"{board.name} · {board.space_name}\n{'   '.join(parts)}"
    return Text(text, style="bold", overflow="ellipsis", no_wrap=True)


def table(board: SearchState, rows: int) -> Table:
    """At most `rows` trials."""
    shown = choose(board, rows)
    best = board.best_row("reference", "search")
    header, cells = parameter_cells(shown, PARAMETERS_WIDTH)
    grid = Table(box=None, width=WIDTH, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("trial", width=13, no_wrap=True)
    grid.add_column(header, ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column("step", justify="right", no_wrap=True, min_width=7)
    grid.add_column(formatting.metric_name(board.metric), justify="right", no_wrap=True, min_width=5)
    grid.add_column("best", justify="right", no_wrap=True, min_width=5)
    grid.add_column("state", width=7, no_wrap=True)
    for row, cell in zip(shown, cells, strict=True):
        is_best = best is not None and row.number == best.number
        grid.add_row(
            f"{row.number:>3} {formatting.ROLES[row.role]}",
            cell,
            f"{row.step}/{row.max_steps}",
            formatting.percent(row.score),
            Text(formatting.percent(row.best), style="bold green" if is_best else ""),
            Text(formatting.state(row), style=STYLES[row.state]),
        )
    if hidden := len(board.rows) - len(shown):
        grid.add_row("", Text(f"… and {hidden} more", style="dim"))
    return grid


def parameter_cells(rows: list[TrialRecord], width: int) -> tuple[str, list[str]]:
    """Heading and cells: searched values in columns under their names when they fit, else `name=value`."""
    keys = list(dict.fromkeys(key for row in rows if row.role != "baseline" for key in row.values))
    names = formatting.short_names(keys)
    lines = [
        [formatting.value(row.values[key], 2) if key in row.values else "" for key in keys] for row in rows
    ]
    widths = [max(len(names[key]), *(len(line[at]) for line in lines)) for at, key in enumerate(keys)]
    if not keys or sum(widths) + len(widths) - 1 > width:
        return "parameters", [formatting.parameters(row.values, digits=2) for row in rows]

    def columns(texts: list[str]) -> str:
        return " ".join(text.rjust(size) for text, size in zip(texts, widths, strict=True))

    cells = [
        columns(line) if set(row.values) <= set(keys) else formatting.parameters(row.values, digits=2)
        for row, line in zip(rows, lines, strict=True)
    ]
    return columns([names[key] for key in keys]), cells


def choose(board: SearchState, rows: int) -> list[TrialRecord]:
    """The running ones, the best, reference and baseline, then the latest; in order of their numbers."""
    best = board.best_row("reference", "search")

    def rank(row: TrialRecord) -> tuple[int, int]:
        if row.state == "running":
            return (0, row.number)
        if (best is not None and row.number == best.number) or row.role != "search":
            return (1, row.number)
        return (2, -row.number)

    everything = sorted(board.rows.values(), key=rank)
    return sorted(everything[:rows], key=lambda row: row.number)
