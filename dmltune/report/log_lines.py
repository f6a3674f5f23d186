"""A search in a log: one line when a trial starts, one when it ends, and now and then one in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.search.state import Event, TrialRecord

EVERY_SECONDS = 10.0


def plain(stream: IO[str], now: Callable[[], float] = time.monotonic) -> Callable[[Event], None]:
    """The function that the search gives its events to."""
    began = now()
    spoke: dict[int, float] = {}

    def watch(event: Event) -> None:
        row = event.row
        if event.kind == "progress" and (row is None or now() - spoke.get(row.number, began) < EVERY_SECONDS):
            return
        if row is not None:
            spoke[row.number] = now()
        metric = formatting.metric_name(event.board.metric) if event.board is not None else "score"
        print(f"[{formatting.clock(now() - began):>6}] {line(event, row, metric)}", file=stream, flush=True)

    return watch


def line(event: Event, row: TrialRecord | None, metric: str) -> str:
    """`trial 3: step 300/600, MAP@R 31.2 %, best 31.9 %`."""
    if row is None or event.kind == "message":
        return event.text
    name = f"trial {row.number}" + (f" ({formatting.ROLES[row.role]})" if formatting.ROLES[row.role] else "")
    if event.kind == "started":
        return f"{name}: {formatting.parameters(row.values) or 'starts'}"
    scores = f"step {row.step}/{row.max_steps}, {metric} {formatting.percent(row.score)} %"
    if event.kind == "progress":
        return f"{name}: {scores}, best {formatting.percent(row.best)} %"
    reason = f": {formatting.first_line(row.reason)}" if row.reason else ""
    return f"{name} {formatting.state(row)} at {scores}, best {formatting.percent(row.best)} %{reason}"
