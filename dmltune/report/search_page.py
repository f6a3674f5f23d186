"""A search as one page: the verdict first, then what it rests on, how it came about, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.report import (
    attention_page,
    course_charts,
    formatting,
    front_charts,
    gallery_page,
    pages,
    parameter_charts,
    search_charts,
)
from dmltune.report.charts import Chart
from dmltune.report.check_page_tables import Cell, PageTable
from dmltune.report.fidelity_lines import fidelity_lines
from dmltune.report.summary import interval, noise_lines_of, warning, without_effect

if TYPE_CHECKING:
    from dmltune.search.page_data import SearchPageData

UNTRAINED = "best before its first step: an untrained network"


def sections(data: SearchPageData) -> dict[str, list[Chart]]:
    """Return the figures of each section."""
    found: dict[str, list[Chart] | list[Chart | None]] = {
        "result": [search_charts.comparison(data), search_charts.history(data)],
        "curves": [search_charts.curves(data)],
        "surface": [parameter_charts.importances(data), parameter_charts.surface(data)],
        "parallel": [parameter_charts.parallel(data)],
        "parameters": parameter_charts.parameters(data),
        "dropped": [course_charts.dropped(data)],
        "time": [course_charts.timeline(data)],
        "map": [gallery_page.embedding_map(data.gallery)],
        "attention": [attention_page.weights_chart(data.gallery)],  # the page itself has the pictures
        "prototypes": [attention_page.prototypes(data.gallery)],
        "distances": gallery_page.distances(data.gallery),
        "front": front_charts.fronts(data),
        "fidelity": [front_charts.fidelity(data)],
        "geometry": [front_charts.geometry(data)],
    }
    return {name: [chart for chart in each if chart is not None] for name, each in found.items()}


def write_search_page(data: SearchPageData, path: Path) -> Path:
    drawn = sections(data)
    kind, headline, figures = verdict(data)
    return pages.write_html(
        "search.html.j2",
        path,
        data=data,
        search=data.search,
        kind=kind,
        headline=headline,
        figures=figures,
        charts=drawn,
        scores=scores_table(data),
        space=space_table(data),
        settings=settings(data),
        members=members_table(data),
        dropped=dropped_table(data),
        facts=course_charts.outcome_rows(data),
        remarks=remarks(data),
        gallery=gallery_page.gallery_of(data.gallery),
        attention=attention_page.attention_of(data.gallery),
        attention_caption=attention_page.caption,
        front=front_charts.front_table(data),
        fidelity=fidelity_lines(data.fidelity),
        commands=commands(data),
        warning=warning(data.search.labels.get("dmltune.protocol", "")),
    )


def verdict(data: SearchPageData) -> tuple[str, str, str]:
    """Return the kind of the finding (a CSS class), the finding in one sentence, and its figures."""
    winner, outcome, search = data.winner, data.search.outcome, data.search
    if winner is None:
        return "unknown", "No trial has finished: there is no winner yet.", ""
    metric = formatting.metric_name(search.metric)
    so_far = "" if search.status == "complete" else " so far"
    score = f"{metric} {formatting.percent(winner.best)} %"
    base = data.baseline.best if data.baseline else None
    if winner.untrained:
        return "unknown", f"No trial{so_far} is better than the untrained network ({score}).", ""
    if outcome is None or outcome.lead is None:
        figures = f"{score}, baseline {formatting.percent(base)} %" if base is not None else score
        text = f"Trial {winner.number} is the best{so_far}; whether by more than chance is not known."
        return "unknown", text, f"{figures}. Without repetitions nothing is known of the noise."
    lead = interval(outcome.lead, signed=True)
    figures = f"{score}; lead over the baseline {lead} points, 95 % interval."
    if outcome.corrected is not None:
        figures += f" Corrected for having been the best of many: {interval(outcome.corrected)} %."
    name = f"Trial {winner.number}"
    if outcome.lead_is_noise:
        return "none", f"{name} is the best{so_far}, but its lead over the baseline may be noise.", figures
    if outcome.lead.mean < 0:
        return "worse", f"The baseline is better than every trial{so_far}.", figures
    return "better", f"{name} is better than the baseline, by more than noise.", figures


def remarks(data: SearchPageData) -> list[str]:
    lines = noise_lines_of(data.search.outcome) if data.search.outcome else []
    if data.baseline is not None and data.baseline.untrained:
        lines.append("The baseline is an untrained network: it never got better than before its first step.")
    return [*lines, *(without_effect(found) for found in data.idle)]


def scores_table(data: SearchPageData) -> PageTable:
    metric = formatting.metric_name(data.search.metric)
    base = data.baseline.best if data.baseline else None
    rows: list[list[str | Cell]] = []
    named = (("winner", data.winner), ("reference point", data.reference), ("baseline", data.baseline))
    for name, row in named:
        if row is None:
            continue
        found = data.scores_of(row)
        values = row.values or (data.baseline_values if row.role == "baseline" else {})
        lead = None if row.best is None or base is None or row.role == "baseline" else row.best - base
        text, note = "–", ""
        if found is not None:
            text = interval(found.interval) if found.interval else formatting.percent(found.mean)
            note = f"{len(found.scores)} trainings" if len(found.scores) > 1 else ""
        if name == "winner" and data.search.outcome and (corrected := data.search.outcome.corrected):
            text, note = interval(corrected), f"{note}, corrected for the choice".lstrip(", ")
        rows.append([
            Cell(name, note=UNTRAINED if row.untrained else ""),
            str(row.number),
            formatting.percent(row.best),
            "" if row.role == "baseline" else formatting.percent(lead, signed=True),
            Cell(text, note=note),
            Cell(formatting.parameters(values), "code"),
        ])  # fmt: skip
    if data.untrained is not None:
        lead = None if base is None else data.untrained - base
        cells = ["", formatting.percent(data.untrained), formatting.percent(lead, signed=True), "", ""]
        rows.append(["untrained network", *cells])
    headings = ["", "trial", f"{metric} %", "to baseline", "mean and 95 % interval", "set"]
    return PageTable(headings, rows, range(1, 5))


def members_table(data: SearchPageData) -> PageTable | None:
    """The trials that cannot be told from the winner."""
    rows: list[list[str | Cell]] = []
    for number in list(data.other_members())[:12]:
        row = data.search.row(number)
        note = UNTRAINED if row.untrained else ""
        values = Cell(formatting.parameters(row.values), "code")
        label = Cell(f"trial {number}", "short", note)
        rows.append([label, formatting.percent(row.best), values])
    metric = formatting.metric_name(data.search.metric)
    return PageTable(["", f"{metric} %", "set"], rows, range(1, 2)) if rows else None


def space_table(data: SearchPageData) -> PageTable:
    """What was searched: each range, the reference point in it, and what the winner has."""
    experiment, winner = data.search.experiment, data.winner
    point = experiment.space.reference_point
    rows: list[list[str | Cell]] = []
    for each in experiment.space.parameters:
        if each.kind == "choice":
            text = ", ".join(map(formatting.value, each.choices))
        else:
            text = f"{formatting.value(each.low)} to {formatting.value(each.high)}" + (
                ", log" if each.log else ""
            )
        chosen = winner.values.get(each.name) if winner else None
        cells = (
            "–" if value is None else formatting.value(value) for value in (point.get(each.name), chosen)
        )
        rows.append(
            [Cell(each.name, "code", note=f"when {each.conditions}" if each.when else ""), text, *cells]
        )
    return PageTable(["parameter", "range", "reference point", "winner"], rows, range(2, 4))


def settings(data: SearchPageData) -> list[tuple[str, str]]:
    """Return what all trials share."""
    experiment = data.search.experiment
    names = {name: getattr(experiment, name).name for name in ("backbone", "pooling", "loss", "references")}
    chosen = {key.removesuffix(".name") for key in experiment.space.names}
    facts = [(name, value) for name, value in names.items() if name not in chosen]
    steps = f"{experiment.max_steps}, validated every {experiment.validate_every}"
    way = f"{experiment.sampler.name} proposes, {experiment.scheduler.name} stops"
    return [*facts, ("steps of a trial", steps), ("search", way)]


def dropped_table(data: SearchPageData) -> PageTable | None:
    metric = formatting.metric_name(data.search.metric)
    rows: list[list[str | Cell]] = [
        [f"step {each.step}", str(each.trials), formatting.percent(each.best)] for each in data.dropped
    ]
    for row in data.failed[:20]:
        reason = Cell(f"trial {row.number}", note=formatting.first_line(row.reason))
        rows.append([reason, "failed", formatting.percent(row.best)])
    return (
        PageTable(["ended at", "trials", f"best {metric} % of them"], rows, range(1, 3), "narrow")
        if rows
        else None
    )


def commands(data: SearchPageData) -> Sequence[tuple[str, str]]:
    """Return the next commands: those that work in the state of the search."""
    name, status = data.search.name, data.search.status
    rows: list[tuple[str, str]] = []
    if data.winner is not None and status == "complete":
        rows.append((f"dmltune check {name}", "train them anew and measure them on unseen classes"))
    if data.winner is not None and status != "running":
        compared = " --compare" if data.baseline is not None else ""
        rows.append(
            (f"dmltune evaluate {name} --split test{compared}", "the stored models on the test classes")
        )
    if data.winner is not None:
        rows.append((f"dmltune export-config {name} -o best.yaml", "the configuration above as a file"))
    if status == "running":
        rows.append((f"dmltune report {name}", "this page with what has come since"))
    else:
        rows.append((f"dmltune resume {name}", "go on with this search"))
    return [*rows, (f"dmltune ui {name}", "every run in MLflow")]
