"""The end of a check in the terminal: scores on the test classes, and which differences are not chance.

At most 80 columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import check_sentences as say
from dmltune.report import formatting
from dmltune.report.terminal import WIDTH, failure_lines, grid, line, lines, wrapped

if TYPE_CHECKING:
    from dmltune.check.document import CheckDocument, MeanResult

STYLES = {"better": "bold green", "worse": "bold red", "none": "", "unknown": "yellow", "untrained": "yellow"}


def check_table(document: CheckDocument) -> list[RenderableType]:
    """Return title, cautions, scores, verdicts, the search's score, failures and footnotes."""
    design = f"{document.protocol} protocol, {say.design(document)}"
    title = f"{document.name} · {document.space_name}   {design}"
    parts: list[RenderableType] = ["", *lines(title, "bold"), *lines(say.measured_on(document), "dim")]
    if cautions := say.cautions(document):
        parts += ["", *(part for text in cautions for part in lines(text, "bold red"))]
    if not document.configurations:
        return [*parts, "", say.headline(document)]
    parts += [
        "",
        _scores(document),
        *_clusterings(document),
        *_rerankings(document),
        "",
        *_verdicts(document),
        "",
    ]
    if selection := say.selection(document):
        parts += [*lines(selection), ""]
    if document.failed:
        parts += [*failure_lines(document.failed, "the report lists them with their reasons"), ""]
    return [*parts, *lines(_footnote(document), "dim")]


def _scores(document: CheckDocument) -> Table:
    metric, dim = document.metric, say.dim_of(document)
    table = grid(width=WIDTH)
    measured = "validation classes" if document.validation_only else "test classes"
    table.add_column(measured, ratio=1, overflow="fold")
    table.add_column("models", justify="right", no_wrap=True)
    table.add_column(f"{formatting.metric_name(metric)} %", justify="right", no_wrap=True)
    table.add_column(f"{say.level(document)} CI", no_wrap=True, min_width=11)
    table.add_column(f"{dim}-d %" if dim else "joined %", justify="right", no_wrap=True)
    table.add_column(f"{formatting.metric_name('precision_at_1')} %", justify="right", no_wrap=True)
    main = say.main_of(document)
    for row in document.configurations:
        single = row.single.get(metric)
        means = (single, row.ensemble.get(metric), row.single.get("precision_at_1"))
        mean, joined, precision = (formatting.percent(result.mean if result else None) for result in means)
        table.add_row(
            line(row.name, "bold" if row is main else ""),
            f"{len(row.models)}/{say.planned(document)}",
            line(mean, "bold green" if say.judge(document, row).kind == "better" else ""),
            say.between(single),
            joined,
            precision,
        )
    return table


def _clusterings(document: CheckDocument) -> list[RenderableType]:
    """Return NMI and F1 of k-means, when they were measured."""
    if not any("nmi" in row.single for row in document.configurations):
        return []
    table = grid(width=WIDTH)
    table.add_column(f"k-means, {document.test_classes:,} clusters", ratio=1, overflow="fold")
    table.add_column("NMI %", justify="right", no_wrap=True)
    table.add_column("F1 %", justify="right", no_wrap=True)
    for row in document.configurations:
        figures = (row.single.get(name) for name in ("nmi", "f1"))
        table.add_row(line(row.name), *(formatting.percent(each.mean if each else None) for each in figures))
    return ["", table]


def _rerankings(document: CheckDocument) -> list[RenderableType]:
    """Return what re-ranking adds, when it was measured."""
    parts: list[RenderableType] = []
    for prefix, method in (("k_reciprocal", "k-reciprocal"), ("aqe", "query expansion")):
        if not any(f"{prefix}_gain" in row.single for row in document.configurations):
            continue
        table = grid(width=WIDTH)
        table.add_column(f"re-ranked by {method}", ratio=1, overflow="fold")
        for title in ("MAP@R %", "P@1 %", "gain in MAP@R"):
            table.add_column(title, justify="right", no_wrap=True)
        for row in document.configurations:
            names = (f"{prefix}_{name}" for name in ("map_at_r", "precision_at_1"))
            figures = (row.single.get(name) for name in names)
            cells = (formatting.percent(each.mean if each else None) for each in figures)
            table.add_row(line(row.name), *cells, _gain(row.single.get(f"{prefix}_gain")))
        parts += ["", table]
    return parts


def _gain(result: MeanResult | None) -> str:
    """`+2.1 (1.0 – 3.2)`, in points."""
    if result is None:
        return "–"
    interval = say.between(result)
    return formatting.percent(result.mean, signed=True) + (f" ({interval})" if interval != "–" else "")


def _verdicts(document: CheckDocument) -> list[RenderableType]:
    """Return the values of each configuration and, below them, the finding about it."""
    parts: list[RenderableType] = []
    for row in document.configurations:
        values = formatting.parameters(formatting.flat(row.values))
        name = line(row.name).plain
        for text in wrapped(f"{name}   {values}", rest="  "):
            bold = len(name) if text.startswith(name) else 0
            parts.append(Text.assemble((text[:bold], "bold"), (text[bold:], "dim")))
        judgement = say.judge(document, row)
        if judgement.kind != "itself":
            parts += lines(judgement.whole, STYLES[judgement.kind], "  ", "    ")
    return parts


def _footnote(document: CheckDocument) -> str:
    dim = say.dim_of(document)
    joined = f" {dim}-d: the {document.folds} folds' embeddings concatenated." if dim else ""
    return (
        f"Means of single models over folds and seeds.{joined} Differences are in points, of models paired "
        f"by fold and seed; their intervals cover {say.covered(document)}."
    )
