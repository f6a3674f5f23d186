"""A running search in the terminal: a table of 80 to 120 columns, or lines of a log.

Events arrive on the search's thread; rich draws on a thread of its own, from a copy of the search state.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dmltune.errors import printable
from dmltune.report import formatting
from dmltune.report.terminal import WIDTH, line

if TYPE_CHECKING:
    from dmltune.search.state import SearchEvent, SearchState, TrialRecord

WIDEST = 120
PARAMETERS_WIDTH = 38  # what the other columns leave of 80
PROJECTION_WIDTH = 4  # of CCP's column
COST_WIDTH = 5  # of the column of a cost
MESSAGE_SECONDS = 20.0
EVERY_SECONDS = 10.0  # between two lines of the log about the progress of one trial
NOTHING: Mapping[str, Any] = {}
STYLES = {
    "running": "bold",
    "paused": "dim",
    "complete": "green",
    "pruned": "dim",
    "failed": "red",
    "interrupted": "yellow",
}


@contextmanager
def live(console: Console, baseline: Mapping[str, Any] = NOTHING) -> Iterator[Callable[[SearchEvent], None]]:
    """Yield the function that draws events of a search; the last table stays on the screen.

    `baseline` holds what the baseline sets, by dotted key: its trial has no values of its own.
    """
    view = View(console, baseline)
    table = Live(get_renderable=view.render, console=console, refresh_per_second=4, transient=False)
    with silent_control_keys(), table:
        yield view.watch


@contextmanager
def silent_control_keys() -> Iterator[None]:
    """Keep the terminal from writing ^C, which would wrap a full line and push the table down."""
    # Changing the terminal's settings stops a background job.
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
    """The latest search state and message, drawn on demand."""

    def __init__(self, console: Console, baseline: Mapping[str, Any] = NOTHING) -> None:
        self.console = console
        self.baseline = dict(baseline)
        self.state: SearchState | None = None
        self.message, self.message_time = "starting …", -math.inf

    def watch(self, event: SearchEvent) -> None:
        self.state = event.state
        if event.kind == "message":
            self.message, self.message_time = event.text, time.monotonic()

    def render(self) -> RenderableType:
        message = line(self.message, "dim", overflow="ellipsis", no_wrap=True)
        if self.state is None:
            return message
        state = self.state.snapshot()
        for record in state.rows.values():
            if record.role == "baseline":
                record.values = record.values or self.baseline
            elif record.role == "repeat":
                record.values = repetition(record)
        width = min(WIDEST, max(WIDTH, self.console.width))
        parts: list[RenderableType] = [headline(state), table(state, max(3, self.console.height - 7), width)]
        if not state.rows or time.monotonic() - self.message_time < MESSAGE_SECONDS:
            parts.append(message)
        return Group(*parts)


def repetition(record: TrialRecord) -> dict[str, Any]:
    """Return what is particular to a repetition: `of trial 3, seed 1`."""
    values: dict[str, Any] = {"trial": record.repeats or 0, "seed": record.seed}
    return values | ({"fold": record.fold} if record.fold else {})


def headline(state: SearchState) -> Text:
    """`demo · glyphs-ccp`, below it `5 of 12 trials   best 41.2 % (trial 3)   2m10s, about 3m05s left`."""
    ended = [row for row in state.rows.values() if row.state not in ("running", "paused", "interrupted")]
    cheap = sum(row.role == "cheap" for row in ended)
    parts = [f"{len(ended) - cheap} of {state.trials_planned} trials{f' and {cheap} cheap' if cheap else ''}"]
    if (best := state.best_row("reference", "search")) is not None:
        parts.append(f"best {formatting.percent(best.best)} % (trial {best.number})")
    duration = formatting.clock(time.monotonic() - state.started)
    left = state.seconds_left()
    parts.append(duration if left is None else f"{duration}, about {formatting.clock(left)} left")
    text = f"{state.name} · {state.space_name}\n{'   '.join(parts)}"
    return line(text, "bold", overflow="ellipsis", no_wrap=True)


def table(state: SearchState, rows: int, width: int = WIDTH) -> Table:
    """Return a table of at most `rows` trials, `width` columns wide."""
    shown = choose(state, rows)
    best = state.best_row("reference", "search")
    projects = any("projection" in record.metrics for record in shown)
    costs = list(dict.fromkeys(name for record in state.rows.values() for name in record.costs))
    taken = (PROJECTION_WIDTH + 1 if projects else 0) + (COST_WIDTH + 1) * len(costs)
    header, cells = parameter_cells(shown, PARAMETERS_WIDTH + width - WIDTH - taken)
    grid = Table(box=None, width=width, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("trial", width=13, no_wrap=True)
    grid.add_column(line(header), ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column("step", justify="right", no_wrap=True, min_width=7)
    grid.add_column(formatting.metric_name(state.metric), justify="right", no_wrap=True, min_width=5)
    grid.add_column("best", justify="right", no_wrap=True, min_width=5)
    if projects:
        grid.add_column("proj", justify="right", width=PROJECTION_WIDTH)
    for name in costs:
        grid.add_column(formatting.COSTS[name][0][:COST_WIDTH], justify="right", width=COST_WIDTH)
    grid.add_column("state", width=7, no_wrap=True)
    for record, cell in zip(shown, cells, strict=True):
        is_best = best is not None and record.number == best.number
        grid.add_row(
            f"{record.number:>3} {formatting.ROLES[record.role]}",
            line(cell),
            f"{state.step_of(record)}/{record.max_steps}",
            formatting.percent(record.score),
            line(formatting.percent(record.best), "bold green" if is_best else ""),
            *([formatting.projection(record.metrics)] if projects else []),
            *(formatting.value(record.costs[name]) if record.costs else "" for name in costs),
            line(formatting.state(record), STYLES[record.state]),
        )
    if hidden := len(state.rows) - len(shown):
        grid.add_row("", line(f"… and {hidden} more", "dim"))
    return grid


def parameter_cells(rows: list[TrialRecord], width: int) -> tuple[str, list[str]]:
    """Return heading and cells: values in columns below their names.

    Where not all fit, the narrowest are shown and the heading ends with the number of the others; where none
    fits, the cells are `name=value`.
    """
    points = (row for row in rows if row.role in ("reference", "search"))
    keys = list(dict.fromkeys(key for row in points for key in row.values))
    names = formatting.short_names(keys)
    texts = {
        key: [formatting.value(row.values[key], 2) if key in row.values else "" for row in rows]
        for key in keys
    }
    widths = {key: max(len(names[key]), *map(len, texts[key])) for key in keys}
    shown = fitting(widths, width)
    if not shown:
        return "parameters", [formatting.parameters(row.values, digits=2) for row in rows]

    def columns(cells: Mapping[str, str]) -> str:
        return " ".join(cells[key].rjust(widths[key]) for key in shown)

    cells = [
        columns({key: texts[key][at] for key in shown})
        if set(row.values) <= set(keys) and any(texts[key][at] for key in shown)
        else formatting.parameters(row.values, digits=2)
        for at, row in enumerate(rows)
    ]
    more = f" +{len(keys) - len(shown)}" if len(shown) < len(keys) else ""
    return columns(names) + more, cells


def fitting(widths: Mapping[str, int], width: int) -> list[str]:
    """Return the columns that fit, in their order: all, or as many as possible, the narrowest first."""
    if sum(widths.values()) + len(widths) - 1 <= width:
        return list(widths)
    chosen: set[str] = set()
    left = width - 4  # for ` +12`
    for key in sorted(widths, key=lambda key: widths[key]):
        left -= widths[key] + (1 if chosen else 0)
        if left < 0:
            break
        chosen.add(key)
    return [key for key in widths if key in chosen]


def choose(state: SearchState, rows: int) -> list[TrialRecord]:
    """Return running trials, the best, reference and baseline, then the latest; ordered by number."""
    best = state.best_row("reference", "search")

    def rank(row: TrialRecord) -> tuple[int, int]:
        if row.state == "running":
            return (0, row.number)
        if (best is not None and row.number == best.number) or row.role not in ("search", "cheap"):
            return (1, row.number)
        return (2, -row.number)

    everything = sorted(state.rows.values(), key=rank)
    return sorted(everything[:rows], key=lambda row: row.number)


def plain(stream: IO[str], now: Callable[[], float] = time.monotonic) -> Callable[[SearchEvent], None]:
    """Return the function that writes events of a search to `stream`."""
    start = now()
    last_line: dict[int, float] = {}

    def watch(event: SearchEvent) -> None:
        record, seconds = event.record, now()
        if record is not None:
            if event.kind == "progress" and seconds - last_line.get(record.number, start) < EVERY_SECONDS:
                return
            last_line[record.number] = seconds
        text = printable(log_line(event))
        print(f"[{formatting.clock(seconds - start):>6}] {text}", file=stream, flush=True)

    return watch


def log_line(event: SearchEvent) -> str:
    """`trial 3: step 300/600, MAP@R 31.2 %, best 31.9 %`."""
    record = event.record
    if record is None or event.kind == "message":
        return event.text
    role = formatting.ROLES[record.role]
    name = f"trial {record.number} ({role})" if role else f"trial {record.number}"
    if event.kind == "started":
        values = repetition(record) if record.role == "repeat" else record.values
        return f"{name}: {formatting.parameters(values) or 'starts'}"
    metric = formatting.metric_name(event.state.metric)
    scores = f"step {record.step}/{record.max_steps}, {metric} {formatting.percent(record.score)} %"
    scores += f", best {formatting.percent(record.best)} %"
    if projection := formatting.projection(record.metrics):
        scores += f", projection {projection}"
    if event.kind == "progress":
        return f"{name}: {scores}"
    reason = f": {formatting.first_line(record.reason)}" if record.reason else ""
    return f"{name} {formatting.state(record)} at {scores}{reason}"
