"""The front of a search with several objectives: a table, sentences, and a line in its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table

from dmltune.report import formatting
from dmltune.report.terminal import grid, line, lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dmltune.search.state import Front, FrontMember, TrialRecord

SHOWN = 12  # members


def front_view(front: Front | None, rows: Sequence[TrialRecord], metric: str) -> list[RenderableType]:
    """Return the table and how to read it; nothing without a front."""
    if front is None:
        return []
    named = [formatting.COSTS[name][1] for name in front.against]
    costs = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    text = f"Front of {formatting.metric_name(metric)} against {costs}: no other trial is better in one of "
    text += "these and as good in the others."
    parts: list[RenderableType] = ["", *lines(text), front_table(front, rows, metric)]
    if front.knee is not None:
        parts.append(line(f"Trial {front.knee} is the knee: beyond it a little more score costs much."))
    return parts


def front_table(front: Front, rows: Sequence[TrialRecord], metric: str) -> Table:
    """Return a row for each member, the best score first."""
    values: Mapping[int, Mapping[str, Any]] = {row.number: row.values for row in rows}
    intervals = any(member.interval for member in front.members)
    table = grid()
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column(f"{formatting.metric_name(metric)} %", justify="right", no_wrap=True)
    if intervals:
        table.add_column("95 % interval", no_wrap=True)
    for name in front.against:
        table.add_column(formatting.COSTS[name][0], justify="right", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    for member in front.members[:SHOWN]:
        table.add_row(
            str(member.trial),
            "knee" if member.trial == front.knee else "",
            formatting.percent(member.score),
            *([_interval(member)] if intervals else []),
            *(formatting.value(member.costs[name]) for name in front.against),
            line(formatting.parameters(values.get(member.trial, {}))),
        )
    if (more := len(front.members) - SHOWN) > 0:
        table.add_row("", "", "", line(f"… and {more} more", "dim"))
    return table


def _interval(member: FrontMember) -> str:
    if member.interval is None:
        return ""
    return f"{formatting.percent(member.interval.low)} to {formatting.percent(member.interval.high)}"


def draw_front(axis: Axes, front: Front, cost: str) -> None:
    """Draw the best score of the front's members up to each cost as a staircase."""
    best: list[tuple[float, float]] = []
    for member in sorted(front.members, key=lambda each: each.costs[cost]):
        if not best or _ahead(front, member.score, best[-1][1]):
            best.append((member.costs[cost], member.score))
    costs, scores = zip(*best, strict=True)
    axis.step(costs, [100 * each for each in scores], where="post", color="#2ca02c", lw=1.2, zorder=1)
    axis.plot(costs, [100 * each for each in scores], ".", color="#2ca02c", ms=4, zorder=3)


def _ahead(front: Front, score: float, than: float) -> bool:
    falls = front.members[0].score < front.members[-1].score  # a low score is good
    return score < than if falls else score > than
