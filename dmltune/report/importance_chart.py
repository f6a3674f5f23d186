"""Importances of parameters as bars in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.terminal import grid, line, lines

if TYPE_CHECKING:
    from dmltune.search.importance import Importance, Importances

BAR = 28  # columns of a share of 100 %


def importance_view(name: str, metric: str, found: Importances) -> list[RenderableType]:
    """Return the bars, and how to read them."""
    ended = [f"{found.complete} complete"]
    ended += [f"{found.estimated} stopped (their final score is estimated)"] if found.estimated else []
    ended += [f"{found.failed} failed (the worst)"] if found.failed else []
    rest = "Interactions" if found.noise_known else "Interactions and noise"
    text = (
        f"A bar is the share of the variance of the rank by {formatting.metric_name(metric)} that the "
        f"parameter causes alone over its whole range; [ ] is a 95 % interval. {rest} are the rest."
    )
    return [
        *lines(f"{name}: importances from {', '.join(ended)}", "bold"),
        *(lines(found.warning, "yellow") if found.warning else []),
        "",
        bars(found),
        "",
        *lines(text, "dim"),
    ]


def bars(found: Importances) -> Table:
    names = formatting.short_names(row.name for row in found.parameters)
    table = grid(show_header=False)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for row in found.parameters:
        table.add_row(line(names[row.name]), bar(row), *figures(row))
    rest = "interactions" if found.noise_known else "interactions, noise"
    table.add_row(Text(rest, style="dim"), bar(found.rest), *figures(found.rest))
    return table


def bar(row: Importance) -> Text:
    """Return a bar to the share, thin from there to the end of the interval."""
    full, end = round(BAR * row.share), round(BAR * row.high)
    return Text.assemble(("█" * full, "cyan"), ("░" * max(0, end - full), "dim"))


def figures(row: Importance) -> tuple[str, str]:
    return f"{100 * row.share:.0f} %", f"[{100 * row.low:.0f}, {100 * row.high:.0f}]"
