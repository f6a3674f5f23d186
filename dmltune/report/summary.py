"""The end of a search: winner, reference point and baseline side by side, the others' fate, what to do next.

Scores are of the validation classes, in percent. The winner is the best of many tries on them; only the test
classes say what it is worth.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.search.state import SearchResult, TrialRecord

NOTHING: Mapping[str, Any] = {}
SHORT = 48  # a command of this length and its meaning fit 80 columns


def summary(
    result: SearchResult, again: str, places: str = "", baseline: Mapping[str, Any] = NOTHING
) -> list[RenderableType]:
    """`again` is the command that goes on with this search, `places` its options for data and store.

    `baseline` is what the baseline sets, by dotted key: its trial has no values of its own.
    """
    rows = rows_of(result.rows)
    parts: list[RenderableType] = [
        "",
        Text(
            f"{result.name} · {result.space_name}   {len(rows)} trials: {formatting.counts(rows)}",
            style="bold",
        ),
    ]
    if result.interrupted:
        parts.append(Text("stopped before its end; nothing that finished is lost", style="yellow"))
    if seen := warning(result.protocol):
        parts += ["", Text(seen, style="bold red")]
    parts += ["", side_by_side(result, baseline)]
    parts += [Text(text) for text in verdict(result)]
    if failures := [row for row in rows if row.state == "failed"]:
        parts += [
            "",
            *(
                Text(f"trial {row.number} failed: {formatting.first_line(row.reason)}", style="red")
                for row in failures[:5]
            ),
        ]
        if len(failures) > 5:
            parts.append(Text(f"… and {len(failures) - 5} more; `dmltune ui` shows each with its reason"))
    parts += ["", f"runs and checkpoints: {nearby(result.store)}", ""]
    parts += next_commands(result, again, places)
    return parts


def side_by_side(result: SearchResult, baseline: Mapping[str, Any]) -> Table:
    """One line each for the winner, the reference point, the baseline, the untrained embedder."""
    metric = formatting.metric_name(result.metric)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("test classes" if warning(result.protocol) else "validation classes", no_wrap=True)
    grid.add_column("trial", justify="right")
    grid.add_column(f"{metric} %", justify="right", no_wrap=True)
    grid.add_column("difference", justify="right")
    grid.add_column("parameters", overflow="fold")
    base = result.baseline.best if result.baseline is not None else None
    for name, row in named_rows(result):
        if row is None:
            grid.add_row(name, "–", "–", "–", "did not run")
            continue
        difference = "" if row.role == "baseline" else formatting.percent(minus(row.best, base), signed=True)
        score = Text(formatting.percent(row.best), style="bold green" if name == "winner" else "")
        grid.add_row(
            name,
            str(row.number),
            score,
            difference,
            formatting.parameters(row.values or (baseline if row.role == "baseline" else {})),
        )
    untrained = result.untrained_score
    grid.add_row(
        "untrained embedder",
        "",
        formatting.percent(untrained),
        formatting.percent(minus(untrained, base), signed=True),
        "",
    )
    return grid


def named_rows(result: SearchResult) -> list[tuple[str, TrialRecord | None]]:
    return [("winner", result.winner), ("reference point", result.reference), ("baseline", result.baseline)]


def warning(protocol: str) -> str:
    """What has to be said beside every figure of a protocol that looks at the test classes, or nothing."""
    if protocol != "conventional":
        return ""
    return "conventional protocol: these figures were monitored on the test classes"


def verdict(result: SearchResult) -> list[str]:
    """What the table says, and what it does not say."""
    winner = result.winner
    if winner is None:
        return ["", "no trial has finished, so there is no winner"]
    lines = [""]
    base = result.baseline.best if result.baseline is not None else None
    if base is not None and not formatting.better(result.mode, winner.best, base):
        lines.append("Nothing beat the baseline.")
    elif winner.role == "reference":
        lines.append("Nothing beat the reference point.")
    seen = warning(result.protocol)
    test = "They are the test classes." if seen else "The test classes have not been read."
    return [
        *lines,
        "Differences are to the baseline, in points. The winner is the best of many tries",
        f"on these classes: expect less elsewhere. {test}",
    ]


def next_commands(result: SearchResult, again: str, places: str) -> list[Text]:
    """Lines to copy: a long command stands alone below its meaning."""
    commands: list[tuple[str, str]] = []
    unseen = "the same" if warning(result.protocol) else "unseen"
    if result.interrupted or result.winner is None:
        commands.append((again, "goes on where it stopped"))
    if result.winner is not None:
        commands.append((f"dmltune evaluate {result.name} --split test{places}", f"on {unseen} classes"))
    commands.append((f"dmltune ui{store_option(result.store)}", "every run, in the browser"))
    if not result.interrupted and result.winner is not None:
        commands.append((f"{again} --trials {2 * len(result.rows)}", "searches on"))
    width = max((len(command) for command, _ in commands if len(command) <= SHORT), default=0)
    lines: list[Text] = []
    for command, meaning in commands:
        if len(command) > SHORT:
            lines += [Text(f"  # {meaning}", style="dim"), Text(f"  {command}", style="bold")]
        else:
            lines.append(Text.assemble("  ", (command.ljust(width), "bold"), (f"  # {meaning}", "dim")))
    return lines


def store_option(store: Path) -> str:
    """` --store FOLDER`, or nothing when it is where a command looks anyway."""
    usual = Path(os.environ.get("DMLTUNE_STORE") or "mlruns").expanduser().absolute()
    return "" if store == usual else f" --store {shlex.quote(nearby(store))}"


def rows_of(rows: object) -> list[TrialRecord]:
    """A board's rows by number, or a result's in order."""
    listed: Iterable[TrialRecord] = rows.values() if isinstance(rows, dict) else rows  # type: ignore[assignment]
    return sorted(listed, key=lambda row: row.number)


def minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def nearby(path: Path) -> str:
    """Relative when it lies below the current folder."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
