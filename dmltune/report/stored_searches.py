"""The searches of a store as a table, and the winner of one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.front_table import front_view
from dmltune.report.summary import command_lines
from dmltune.report.terminal import grid, line, lines

if TYPE_CHECKING:
    from dmltune.search.state import Range, TrialRecord
    from dmltune.search.stored import StoredSearch

STYLES = {"running": "bold", "complete": "green", "interrupted": "yellow"}
MOST_NUMBERS = 12  # of a winner set


def seconds_of(search: StoredSearch) -> float | None:
    """Return the time from the first start to the last end, or to now while it runs."""
    if search.started is None:
        return None
    if search.status == "running":
        return max(0.0, time.time() - search.started)
    return None if search.ended is None else max(0.0, search.ended - search.started)


def trials_text(search: StoredSearch) -> str:
    """Return `9/20`: the trials that have ended, of those that are planned; cheap ones are counted apart."""
    rows = [row for row in search.rows if row.role != "cheap"]
    ended = sum(row.state in ("complete", "pruned", "failed") for row in rows)
    planned = "?" if search.planned is None else str(max(search.planned, len(rows)))
    cheap = len(search.rows) - len(rows)
    return f"{ended}/{planned}{f' +{cheap} cheap' if cheap else ''}"


def facts(search: StoredSearch) -> dict[str, Any]:
    """Return one search as JSON types; the score is a fraction, times are seconds."""
    winner = search.winner
    states = [row.state for row in search.rows]
    return {
        "name": search.name,
        "space": search.space_name,
        "state": search.status,
        "trials": {
            "planned": search.planned,
            "ended": sum(state in ("complete", "pruned", "failed") for state in states),
            **{state: states.count(state) for state in sorted(set(states))},
        },
        "metric": search.metric,
        "mode": search.mode,
        "best": None if winner is None else winner.best,
        "best_trial": None if winner is None else winner.number,
        "started": search.started,
        "seconds": seconds_of(search),
        "run_id": search.run_id,
    }


def runs_table(searches: Sequence[StoredSearch]) -> Table:
    """Return a row for each search, at most 80 columns wide."""
    metrics = {search.metric for search in searches}
    one = formatting.metric_name(next(iter(metrics))) if len(metrics) == 1 else "best"
    table = grid()
    table.add_column("search", overflow="fold")
    table.add_column("space", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("trials", justify="right", no_wrap=True)
    table.add_column(f"{one} %", justify="right", no_wrap=True)
    table.add_column("started", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    for search in searches:
        seconds, winner = seconds_of(search), search.winner
        score = formatting.percent(None if winner is None else winner.best)
        score += "" if winner is None else formatting.untrained(winner)
        table.add_row(
            line(search.name),
            line(search.space_name),
            Text(search.status, style=STYLES[search.status]),
            trials_text(search),
            line(score if len(metrics) == 1 else f"{score} {formatting.metric_name(search.metric)}"),
            "" if search.started is None else time.strftime("%m-%d %H:%M", time.localtime(search.started)),
            "" if seconds is None else formatting.clock(seconds),
        )
    return table


def best_view(search: StoredSearch, winner: TrialRecord, places: str) -> list[RenderableType]:
    """Return the winner: score, values, what is known about its lead, and the next commands."""
    metric = formatting.metric_name(search.metric)
    classes = "test" if search.labels.get("dmltune.protocol") == "conventional" else "validation"
    name = "best so far" if search.status != "complete" else "winner"
    table = grid(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(name, line(f"trial {winner.number} ({winner.role})"))
    table.add_row(
        f"{metric} %",
        line(f"{formatting.percent(winner.best)} on the {classes} classes{formatting.untrained(winner)}"),
    )
    if search.outcome is not None and (corrected := search.outcome.corrected):
        table.add_row("expected %", line(f"{interval(corrected)}, corrected for having been chosen"))
    names = formatting.short_names(winner.values)
    for key, item in winner.values.items():
        table.add_row(line(names[key]), line(formatting.value(item, 6)))
    return [
        line(f"{search.name} · {search.space_name}   {trials_text(search)} trials, {search.status}", "bold"),
        "",
        table,
        *([""] if (remarks := outcome_lines(search, winner)) else []),
        *remarks,
        *front_view(search.front, search.rows, search.metric),
        "",
        *commands(search.name, places, whole=search.status == "complete"),
    ]


def interval(found: Range, signed: bool = False) -> str:
    """`45.1 [44.0, 46.2]` in percent: the mean and its 95 % interval."""
    mean, low, high = (formatting.percent(each, signed) for each in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def outcome_lines(search: StoredSearch, winner: TrialRecord) -> list[Text]:
    """Return what the repetitions say; nothing for a search without them."""
    outcome, sentences = search.outcome, []
    if outcome is None:
        return []
    others = [number for number in outcome.winner_set if number != winner.number]
    if others:
        shown = ", ".join(map(str, others[:MOST_NUMBERS])) + (", …" if len(others) > MOST_NUMBERS else "")
        plural = "s" if len(others) > 1 else ""
        sentences.append(f"Winner set: trial{plural} {shown} cannot be told from the winner.")
    elif outcome.winner_set:
        sentences.append("Winner set: the winner alone.")
    if outcome.noise is not None:
        sentences.append(f"Noise: {100 * outcome.noise:.2f} points, the standard deviation of repetitions.")
    if outcome.lead is not None:
        relation = {True: ", within the noise", False: ", above the noise", None: ""}[outcome.lead_is_noise]
        sentences.append(f"Lead over the baseline: {interval(outcome.lead, signed=True)} points{relation}.")
    return [part for sentence in sentences for part in lines(sentence, rest="  ")]


def commands(name: str, places: str, whole: bool) -> list[Text]:
    """Return commands to copy; only a `whole` search can be checked."""
    shown = shlex.quote(name)
    check = (f"dmltune check {shown}{places}", "is it better, or luck?")
    return command_lines(
        [
            (f"dmltune evaluate {shown} --split test{places}", "on unseen classes"),
            *([check] if whole else []),
            (f"dmltune export-config {shown}{places} -o best.yaml", "its configuration as YAML"),
        ]
    )
