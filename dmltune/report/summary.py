"""The end of a search: winner, reference point and baseline side by side, failures, next commands.

Scores are of the validation classes, in percent. The winner is the best of many trials on them; only the test
classes tell how good it is.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.fidelity_lines import fidelity_lines
from dmltune.report.front_table import front_view
from dmltune.report.terminal import failure_lines, grid, line
from dmltune.report.terminal import lines as wrapped_lines

if TYPE_CHECKING:
    from dmltune.search.state import IdleParameter, Outcome, Range, SearchResult

NOTHING: Mapping[str, Any] = {}
SHOWN = 8  # trials of the winner set
SHORT = 48  # columns of a command that has room for its meaning on the same line


def summary(
    result: SearchResult,
    resume: str,
    extend: str,
    places: str = "",
    baseline: Mapping[str, Any] = NOTHING,
    *,
    test_opened: bool,
    steps: bool = True,
) -> list[RenderableType]:
    """Return the lines and the table that `dmltune search` ends with.

    `resume` is the command that continues this search, `extend` the one with more trials, and `places` are
    their options for data and store. `baseline` holds what the baseline sets, by dotted key: its trial has no
    values of its own. `test_opened` says whether the test ledger has an opening of these test classes.
    Without `steps` the next commands are left out.
    """
    rows = sorted(result.rows, key=lambda record: record.number)
    title = f"{result.name} · {result.space_name}   {len(rows)} trials: {formatting.counts(rows)}"
    parts: list[RenderableType] = ["", line(title, "bold")]
    if result.interrupted:
        parts.append(line("stopped before its end; finished trials are kept", "yellow"))
    if text := warning(result.protocol):
        parts += ["", line(text, "bold red")]
    parts += ["", side_by_side(result, baseline)]
    for text in verdict(result, test_opened):
        parts += wrapped_lines(text) if text else [""]
    parts += front_view(result.front, rows, result.metric)
    if cheap := fidelity_lines(result.fidelity):
        parts += ["", *(part for text in cheap for part in wrapped_lines(text))]
    if result.idle_parameters:
        parts += ["", *(line(without_effect(found), "yellow") for found in result.idle_parameters)]
    if failed := {f"trial {row.number}": row.reason for row in rows if row.state == "failed"}:
        parts += ["", *failure_lines(failed, "`dmltune ui` shows their reasons")]
    parts += ["", line(f"runs and checkpoints: {nearby(result.store)}"), ""]
    return [*parts, *(next_commands(result, resume, extend, places) if steps else [])]


def side_by_side(result: SearchResult, baseline: Mapping[str, Any]) -> Table:
    """Return a table with the winner, the reference point, the baseline and the untrained embedder."""
    table = grid()
    table.add_column("test classes" if warning(result.protocol) else "validation classes", no_wrap=True)
    table.add_column("trial", justify="right")
    table.add_column(f"{formatting.metric_name(result.metric)} %", justify="right", no_wrap=True)
    table.add_column("difference", justify="right")
    projects = any("projection" in record.metrics for record in result.rows)
    if projects:
        table.add_column("proj", justify="right")  # as in the live table
    table.add_column("parameters", overflow="fold")
    base = result.baseline.best if result.baseline is not None else None
    named = (("winner", result.winner), ("reference point", result.reference), ("baseline", result.baseline))
    for name, record in named:
        if record is None:
            table.add_row(name, "–", "–", "–", *(["–"] if projects else []), "did not run")
            continue
        is_base = record.role == "baseline"
        table.add_row(
            f"{name}{formatting.untrained(record)}",
            str(record.number),
            line(formatting.percent(record.best), "bold green" if name == "winner" else ""),
            "" if is_base else formatting.percent(minus(record.best, base), signed=True),
            *([formatting.projection(record.metrics)] if projects else []),
            line(formatting.parameters(record.values or (baseline if is_base else NOTHING))),
        )
    untrained = result.untrained_score
    difference = formatting.percent(minus(untrained, base), signed=True)
    none = [""] if projects else []
    table.add_row("untrained embedder", "", formatting.percent(untrained), difference, *none, "")
    return table


def warning(protocol: str) -> str:
    """Return the warning for a protocol that reads the test classes while it trains, or nothing."""
    if protocol == "all_classes":
        return "all classes train here: these figures are of images that were trained on"
    if protocol != "conventional":
        return ""
    return "conventional protocol: these figures were monitored on the test classes"


def verdict(result: SearchResult, test_opened: bool) -> list[str]:
    """Return how to read the table."""
    winner = result.winner
    if winner is None:
        return ["", "no trial has finished, so there is no winner"]
    lines = [""]
    base = result.baseline.best if result.baseline is not None else None
    if base is not None and not formatting.better(result.mode, winner.best, base):
        lines.append("No trial is better than the baseline.")
    elif winner.role == "reference":
        lines.append("No trial is better than the reference point.")
    if any(row is not None and row.untrained for row in (winner, result.baseline)):
        lines.append("Untrained: no step was better than the network before the first one.")
    lines += noise_lines(result)
    differences = "" if base is None else "Differences are to the baseline, in points. "
    lines += [
        f"{differences}The winner is the best of many trials on these classes: expect less on other classes."
    ]
    if warning(result.protocol):
        return [*lines, "These are the test classes."]
    if test_opened:
        return [*lines, "The test classes were opened before: the test ledger lists when and why."]
    return [*lines, "The test classes have not been opened from this store."]


def noise_lines(result: SearchResult) -> list[str]:
    """Return the noise, the winner's corrected score, the winner set and the lead over the baseline."""
    return noise_lines_of(result.verdict)


def noise_lines_of(found: Outcome | None) -> list[str]:
    """Return the same of a stored search."""
    if found is None or found.noise is None:
        return []
    if found.noise == 0:
        return ["Another seed gives exactly the same score: there is no noise to allow for."]
    lines = [f"Noise: {100 * found.noise:.2f} points, the standard deviation over seeds."]
    if found.corrected is not None:
        lines.append(
            f"Winner: {interval(found.corrected)} after correction for having been chosen (95 % interval)."
        )
    if (others := len(found.winner_set) - 1) > 0:
        shown = ", ".join(map(str, found.winner_set[1 : 1 + SHOWN]))
        more = ", …" if others > SHOWN else ""
        lines.append(f"Not distinguishable from it: {count(others, 'trial')} ({shown}{more}).")
    if found.lead is not None:
        judged = "may be noise" if found.lead_is_noise else "not noise"
        lines.append(f"Lead over the baseline: {interval(found.lead, signed=True)}: {judged}.")
    return lines


def interval(found: Range, signed: bool = False) -> str:
    """Return `19.6 (16.4 to 23.0)`, with `signed` `+0.5 (-2.3 to +3.1)`."""
    mean, low, high = (formatting.percent(score, signed) for score in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high})"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def without_effect(found: IdleParameter) -> str:
    """Return `references.lambda acted in 0 of 12 trials: the first projection did not end; lower …`."""
    return f"{found.name} acted in {found.acted} of {found.trials} trials: {found.why}"


def next_commands(result: SearchResult, resume: str, extend: str, places: str) -> list[Text]:
    """Return commands to copy; a long one stands alone below its meaning."""
    commands: list[tuple[str, str]] = []
    unseen = "the same" if warning(result.protocol) else "unseen"
    if result.interrupted or result.winner is None:
        commands.append((resume, "continue this search"))
    if result.winner is not None:
        commands.append((f"dmltune evaluate {result.name} --split test{places}", f"on {unseen} classes"))
    if result.winner is not None and not result.interrupted:
        commands.append((f"dmltune check {result.name}{places}", "is it better, or luck?"))
    commands.append(
        (f"dmltune ui {result.name}{store_option(result.store)}", "compare its trials, in the browser")
    )
    if not result.interrupted and result.winner is not None:
        commands.append((extend, "more trials"))
    return command_lines(commands)


def command_lines(commands: Sequence[tuple[str, str]]) -> list[Text]:
    """Return commands with their meanings; a long one stands alone below its meaning."""
    width = max((len(command) for command, _ in commands if len(command) <= SHORT), default=0)
    lines: list[Text] = []
    for command, meaning in commands:
        if len(command) > SHORT:
            lines += [line(f"  # {meaning}", "dim"), line(f"  {command}", "bold")]
        else:
            lines.append(Text.assemble("  ", line(command.ljust(width), "bold"), (f"  # {meaning}", "dim")))
    return lines


def store_option(store: Path | str) -> str:
    """Return ` --store STORE`, or nothing for the default store."""
    if isinstance(store, str):  # an address
        return "" if store == os.environ.get("DMLTUNE_STORE") else f" --store {shlex.quote(store)}"
    usual = Path(os.environ.get("DMLTUNE_STORE") or "mlruns").expanduser().absolute()
    return "" if store == usual else f" --store {shlex.quote(nearby(store))}"


def minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def nearby(path: Path | str) -> str:
    """Return a relative path for what lies below the current folder; an address stays as it is."""
    if isinstance(path, str):
        return path
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):  # the second: the current folder was removed
        return str(path)
