"""The end of a check in the terminal: what each configuration reaches on the test classes, and what of it is
more than chance. At most 80 columns.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import check_sentences as say
from dmltune.report import formatting

WIDTH = 80
STYLES = {"better": "bold green", "worse": "bold red", "none": "", "unknown": "yellow"}
MOST_FAILURES = 5


def check_table(document: Mapping[str, Any]) -> list[RenderableType]:
    """Title, cautions, scores, verdicts with their figures, the search's score, failures, footnotes."""
    parts: list[RenderableType] = ["", *_lines(_title(document), "bold"), *_lines(_subject(document), "dim")]
    if cautions := say.cautions(document):
        parts += ["", *(line for text in cautions for line in _lines(text, "bold red"))]
    if not document["configurations"]:
        return [*parts, "", say.headline(document)]
    parts += ["", _scores(document), "", *_verdicts(document), ""]
    if selection := say.selection(document):
        parts += [*_lines(selection), ""]
    parts += _failures(document)
    parts += _lines(_footnote(document), "dim")
    return parts


def _title(document: Mapping[str, Any]) -> str:
    design = f"{_count(document['folds'], 'fold')} × {_count(document['repeats'], 'repeat')}"
    return f"{document['name']} · {document['space_name']}   {document['protocol']} protocol, {design}"


def _subject(document: Mapping[str, Any]) -> str:
    if "test_images" not in document:  # stopped before anything was measured
        return ""
    images, classes = int(document["test_images"]), int(document["test_classes"])
    text = f"test classes of {document['data']}: {images:,} images of {classes:,} classes"
    alone = int(document.get("queries_without_match") or 0)
    return f"{text}; {alone:,} without another of their class are no queries" if alone else text


def _scores(document: Mapping[str, Any]) -> Table:
    metric, dim = document["metric"], say.dim_of(document)
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", width=WIDTH)
    grid.add_column("test classes", ratio=1, overflow="fold")
    grid.add_column("models", justify="right", no_wrap=True)
    grid.add_column(f"{formatting.metric_name(metric)} %", justify="right", no_wrap=True)
    grid.add_column(f"{say.level(document)} CI", no_wrap=True, min_width=11)
    grid.add_column(f"{dim}-d %" if dim else "joined %", justify="right", no_wrap=True)
    grid.add_column(f"{formatting.metric_name('precision_at_1')} %", justify="right", no_wrap=True)
    for row in document["configurations"]:
        single: Mapping[str, Any] = row.get("single") or {}
        joined: Mapping[str, Any] = row.get("ensemble") or {}
        kind = say.judge(document, row).kind
        grid.add_row(
            Text(say.name_of(row), style="bold" if row is say.main_of(document) else ""),
            f"{len(row.get('models') or ())}/{say.planned(document)}",
            Text(_mean(single, metric), style="bold green" if kind == "better" else ""),
            say.between(single.get(metric)),
            _mean(joined, metric),
            _mean(single, "precision_at_1"),
        )
    return grid


def _verdicts(document: Mapping[str, Any]) -> list[RenderableType]:
    """For each configuration the values it stands for and, below them, what was found."""
    lines: list[RenderableType] = []
    for row in document["configurations"]:
        values = formatting.parameters(formatting.flat(row.get("values") or {}))
        first, *more = textwrap.wrap(f"{say.name_of(row)}   {values}", WIDTH, subsequent_indent="  ")
        name = Text.assemble(
            (first[: len(say.name_of(row))], "bold"), (first[len(say.name_of(row)) :], "dim")
        )
        lines += [name, *(Text(line, style="dim") for line in more)]
        judgement = say.judge(document, row)
        if judgement.kind != "itself":
            lines += _lines(judgement.whole, STYLES[judgement.kind], indent="  ")
    return lines


def _failures(document: Mapping[str, Any]) -> list[RenderableType]:
    failed: Mapping[str, str] = document.get("failed") or {}
    lines: list[RenderableType] = [
        Text(f"{member} failed: {formatting.first_line(reason)}", style="red")
        for member, reason in list(failed.items())[:MOST_FAILURES]
    ]
    if len(failed) > MOST_FAILURES:
        lines.append(f"… and {len(failed) - MOST_FAILURES} more; the report has each with its reason")
    return [*lines, ""] if lines else []


def _footnote(document: Mapping[str, Any]) -> str:
    """What the intervals are about."""
    dim = say.dim_of(document)
    joined = f" {dim}-d: the {document['folds']} folds' embeddings joined." if dim else ""
    return (
        f"Means of single models over folds and seeds.{joined} Differences are in points, of models paired "
        f"by fold and seed; their intervals cover {say.covered(document)}."
    )


def _mean(figures: Mapping[str, Any], metric: str) -> str:
    return formatting.percent(say.known((figures.get(metric) or {}).get("mean")))


def _lines(text: str, style: str = "", indent: str = "") -> list[RenderableType]:
    wrapped = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent * 2)
    return [Text(line, style=style) for line in wrapped]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
