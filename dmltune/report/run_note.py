"""The description of a search's run in MLflow, in Markdown: question, verdict, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmltune.errors import printable
from dmltune.report import formatting
from dmltune.report.summary import interval, minus, noise_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmltune.search.state import SearchResult, TrialRecord


def question(name: str, about: str, keys: Iterable[str]) -> str:
    """Return the note of a search that has begun."""
    head = [f"**{printable(about)}**", ""] if about else []
    return "\n".join([*head, _varied(keys), "", *_commands(name)])


def verdict_note(result: SearchResult, about: str, keys: Iterable[str]) -> str:
    """Return the note of a search that has ended, or was stopped."""
    lines = [f"**{printable(about)}**", ""] if about else []
    lines += [verdict_sentence(result), ""]
    lines += [f"- {text}" for text in noise_lines(result)]
    lines += ["", *_table(result), ""]
    lines += [f"{len(result.rows)} trials: {formatting.counts(result.rows)}."]
    if result.interrupted:
        lines.append("The search was stopped before its end.")
    return "\n".join([*lines, "", _varied(keys), "", *_commands(result.name)])


def model_note(result: SearchResult) -> str:
    """Return the description of the registered model: what it is worth, and how it is used."""
    name = result.name
    return "\n".join(
        [
            f"The embedder that search {name} found. {verdict_sentence(result)}",
            "",
            f"- embeddings of images: `dmltune embed {name} photos/ -o vectors.parquet`",
            f"- over HTTP: `dmltune serve {name}`, or "
            f"`mlflow models serve -m models:/{name}@champion --env-manager local`",
            f"- measure on unseen classes: `dmltune check {name}`",
        ]
    )


def verdict_sentence(result: SearchResult) -> str:
    """Return `Trial 6 is best: MAP@R 26.2 %, +12.2 (+5.3 to +17.5) points to the baseline: not noise.`"""
    winner, base = result.winner, result.baseline
    if winner is None:
        return "No trial has finished, so there is no winner."
    name = formatting.metric_name(result.metric)
    if winner.untrained:
        return f"No trial is better than the untrained network ({name} {formatting.percent(winner.best)} %)."
    text = f"Trial {winner.number} is best: {name} {formatting.percent(winner.best)} %"
    lead = result.verdict.lead if result.verdict else None
    if result.verdict is not None and lead is not None:
        judged = "may be noise" if result.verdict.lead_is_noise else "not noise"
        return f"{text}, {interval(lead, signed=True)} points to the baseline: {judged}."
    difference = minus(winner.best, base.best if base else None)
    if difference is None:
        return f"{text}."
    return f"{text}, {formatting.percent(difference, signed=True)} points to the baseline."


def _varied(keys: Iterable[str]) -> str:
    return f"Searched: {', '.join(f'`{key}`' for key in keys)}."


def _table(result: SearchResult) -> list[str]:
    rows: Mapping[str, TrialRecord | None] = {
        "winner": result.winner,
        "reference point": result.reference,
        "baseline": result.baseline,
    }
    lines = [f"| | trial | {formatting.metric_name(result.metric)} % | values |", "|---|---|---|---|"]
    for name, row in rows.items():
        if row is not None:
            values = formatting.parameters(row.values).replace("|", "\\|") or "–"
            called = f"{name}{formatting.untrained(row)}"
            lines.append(f"| {called} | {row.number} | {formatting.percent(row.best)} | {values} |")
    if result.untrained_score is not None:
        lines.append(f"| untrained | | {formatting.percent(result.untrained_score)} | |")
    return lines


def _commands(name: str) -> list[str]:
    return [
        f"- continue: `dmltune resume {name}`",
        f"- measure on unseen classes: `dmltune check {name}`",
        f"- this view: `dmltune ui {name}`",
    ]
