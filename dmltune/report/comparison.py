"""Two trials or searches side by side: what was set, what was scored, and whether the lead is noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.stored_searches import interval
from dmltune.report.summary import count
from dmltune.report.terminal import grid, line, lines

if TYPE_CHECKING:
    from dmltune.search.comparing import ComparedTrial, TrialComparison

MOST_METRICS = 8  # of the last validation
TIMES = ("seconds", "fit_seconds", "images_per_s")  # a trial has its own
LONGEST = 60  # characters of a setting


def comparison_view(found: TrialComparison) -> list[RenderableType]:
    parts: list[RenderableType] = ["", scores_table(found), "", *sentences(found)]
    if found.differences:
        return [*parts, "", settings_table(found)]
    return [*parts, "", line("All settings are equal.")]


def sentences(found: TrialComparison) -> list[Text]:
    """Return how to read the scores."""
    if found.obstacles:
        return lines(f"The scores cannot be compared: {'; '.join(found.obstacles)}.", "yellow", rest="  ")
    if found.lead is None:
        return [line("One of the two has no score yet.", "yellow")]
    text = [f"Lead of {found.left.label}: {100 * found.lead:+.2f} points."]
    if found.interval is not None and found.noise is not None:
        relation = "within the noise" if found.lead_is_noise else "above the noise"
        text = [f"Lead of {found.left.label}: {interval(found.interval, signed=True)} points, {relation}."]
        text.append(
            f"Noise: {100 * found.noise.std:.2f} points between trainings that differ in the seed alone "
            f"({found.noise.freedom} degrees of freedom)."
        )
        if found.paired and found.paired < max(len(found.left.scores), len(found.right.scores)):
            text.append(f"The lead is over the {count(found.paired, 'training')} of both with the same seed.")
        text += verdict_of_the_search(found)
    elif found.differences:
        text.append("No configuration was repeated, so the noise is unknown.")
    for side in (found.left, found.right):
        if side.record.state != "complete":
            state, step = formatting.state(side.record), f"{side.record.step} of {side.record.max_steps}"
            text.append(f"{side.label} is {state} at step {step}: its score is not final.")
    chosen = [side.label for side in (found.left, found.right) if side.chosen]
    if len(chosen) == 1:
        text.append(f"{chosen[0]} was chosen for its score, so the score is optimistic.")
    return [part for sentence in text for part in lines(sentence, rest="  ")]


def verdict_of_the_search(found: TrialComparison) -> list[str]:
    """Return the stored lead of a search, where its winner and its baseline are compared.

    It differs from the one here: it reads all trials of the search, and is corrected for the choice.
    """
    search, winner = found.left.search, found.left.search.winner
    pair = {side.record.role: side.record.number for side in (found.left, found.right)}
    outcome = search.outcome if search.name == found.right.search.name else None
    if winner is None or outcome is None or outcome.lead is None:
        return []
    if set(pair) != {winner.role, "baseline"} or pair[winner.role] != winner.number:
        return []
    relation = "within the noise" if outcome.lead_is_noise else "above the noise"
    return [
        f"The search itself reads all its trials and corrects for the choice: {search.name} leads its "
        f"baseline by {interval(outcome.lead, signed=True)} points, {relation}."
    ]


def scores_table(found: TrialComparison) -> Table:
    """Return scores and the end of the learning curve."""
    sides = (found.left, found.right)
    table = grid()
    table.add_column("", no_wrap=True)
    for side in sides:
        table.add_column(line(side.label), justify="right", overflow="fold")
    metric = formatting.metric_name(found.left.search.metric)
    rows: list[tuple[str, Callable[[ComparedTrial], str]]] = [
        ("trial", lambda side: f"{side.record.number} ({side.record.role})"),
        ("state", lambda side: formatting.state(side.record)),
        (f"best {metric} %", lambda side: formatting.percent(side.record.best)),
        ("at step", best_step_text),
        (f"last {metric} %", lambda side: formatting.percent(side.record.score)),
        ("step", lambda side: f"{side.record.step}/{side.record.max_steps}"),
        ("trainings", lambda side: str(len(side.scores))),
        ("mean of them %", lambda side: formatting.percent(mean_score(side))),
        ("time", lambda side: formatting.clock(side.record.seconds)),
    ]
    for name, cell in rows:
        table.add_row(line(name), *(line(cell(side)) for side in sides))
    for name in last_metrics(found):
        cells = (formatting.value(side.record.metrics.get(name, "–"), 4) for side in sides)
        table.add_row(line(name), *map(line, cells))
    return table


def best_step_text(side: ComparedTrial) -> str:
    return "–" if side.best_step is None else f"{side.best_step}{formatting.untrained(side.record)}"


def last_metrics(found: TrialComparison) -> list[str]:
    """Return the other measures of the last validations."""
    shown = found.left.search.metric
    names = [*found.left.record.metrics, *found.right.record.metrics]
    return [name for name in dict.fromkeys(names) if name != shown and name not in TIMES][:MOST_METRICS]


def mean_score(side: ComparedTrial) -> float | None:
    return sum(side.scores.values()) / len(side.scores) if side.scores else None


def settings_table(found: TrialComparison) -> Table:
    table = grid()
    table.add_column("setting", overflow="fold")
    for side in (found.left, found.right):
        table.add_column(line(side.label), overflow="fold")
    for key, left, right in found.differences:
        table.add_row(line(key), *(line(shown(value)) for value in (left, right)))
    return table


def shown(value: Any) -> str:
    if value is None:
        return "–"
    text = formatting.value(value, 6)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def document(found: TrialComparison) -> dict[str, Any]:
    """Return JSON types; scores are fractions."""
    return {
        "comparable": not found.obstacles,
        "obstacles": list(found.obstacles),
        "metric": found.left.search.metric,
        "mode": found.left.search.mode,
        "lead": found.lead,
        "interval": None if found.interval is None else asdict(found.interval),
        "lead_is_noise": found.lead_is_noise,
        "noise": None if found.noise is None else asdict(found.noise),
        "left": side_document(found.left),
        "right": side_document(found.right),
        "differences": {key: [left, right] for key, left, right in found.differences},
    }


def side_document(side: ComparedTrial) -> dict[str, Any]:
    scores = [{"seed": seed, "fold": fold, "score": score} for (seed, fold), score in side.scores.items()]
    return {
        "name": side.search.name,
        "chosen": side.chosen,
        "trial": asdict(side.record),
        "best_step": side.best_step,
        "scores": scores,
        "curve": [{"step": step, "score": score} for step, score in side.curve],
    }
