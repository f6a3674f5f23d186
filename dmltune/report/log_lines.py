"""A search as lines of a log: one when a trial starts, one when it ends, and a few in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING

from dmltune.errors import printable
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.search.state import SearchEvent

EVERY_SECONDS = 10.0  # between two lines about the progress of one trial


def plain(stream: IO[str], now: Callable[[], float] = time.monotonic) -> Callable[[SearchEvent], None]:
    """Return the function that writes events of a search to `stream`."""
    start = now()
    last_line: dict[int, float] = {}

    def watch(event: SearchEvent) -> None:
        record, seconds = event.record, now()
        if event.kind == "progress" and (
            record is None or seconds - last_line.get(record.number, start) < EVERY_SECONDS
        ):
            return
        if record is not None:
            last_line[record.number] = seconds
        text = printable(line(event))
        print(f"[{formatting.clock(seconds - start):>6}] {text}", file=stream, flush=True)

    return watch


def line(event: SearchEvent) -> str:
    """`trial 3: step 300/600, MAP@R 31.2 %, best 31.9 %`."""
    record = event.record
    if record is None or event.kind == "message":
        return event.text
    role = formatting.ROLES[record.role]
    name = f"trial {record.number} ({role})" if role else f"trial {record.number}"
    if event.kind == "started":
        return f"{name}: {formatting.parameters(record.values) or 'starts'}"
    metric = formatting.metric_name(event.state.metric)
    scores = f"step {record.step}/{record.max_steps}, {metric} {formatting.percent(record.score)} %"
    scores += f", best {formatting.percent(record.best)} %"
    if event.kind == "progress":
        return f"{name}: {scores}"
    reason = f": {formatting.first_line(record.reason)}" if record.reason else ""
    return f"{name} {formatting.state(record)} at {scores}{reason}"
