"""The table of all checks as text, Markdown, CSV or LaTeX, from the JSON form of the overview."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmltune.errors import printable
from dmltune.report import formatting
from dmltune.report.terminal import WIDTH, wrapped

Document = Mapping[str, Any]
LEGEND = "where the difference to the next is more than chance (p < 0.05, Holm)"
MEANS = "means of single models in percent, ± half of the 95 % confidence interval"
JOINED = "joined: the models of all folds put together; no test compares them"
CSV_COLUMNS = (
    *("row", "data", "metric", "score", "protocol", "mean", "low", "high", "sd", "models", "mark", "p_next"),
    *("study", "configuration", "digest", "run_id", "commit", "fingerprint", "model_run_ids", "warning"),
)
_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "λ": r"$\lambda$",
    "μ": r"$\mu$",
    "ε": r"$\varepsilon$",
    "·": r"$\cdot$",
    "–": "--",
} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


def text(document: Document) -> str:
    """Return blocks of columns, each at most 80 wide; ** is best, * second."""
    marked = any(cell["mark"] for cell in document["cells"])
    stars = {"best": "**", "second": "* ", "": "  " if marked else ""}
    grid = _grid(document, lambda cell: f"{_figures(cell)}{stars[cell['mark']]} [{cell['footnote'] + 1}]")
    lines = [part for warning in document["warnings"] for part in wrapped(f"! {warning}", rest="  ")]
    lines += [""] if lines else []
    for block in _blocks(grid):
        widths = [max(len(row[place]) for row in block) for place in range(len(block[0]))]
        for row in block:
            cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            lines.append("  ".join(cells).rstrip())
        lines.append("")
    for note in _notes(document, "** is best, * is second best"):
        lines += wrapped(note, rest="  ")
    for number, study in enumerate(document["studies"], 1):
        first, second = _source(study)
        lines += [f"[{number}] {first}", *wrapped(second, "    ", "    ")]
    return _joined(lines)


def markdown(document: Document) -> str:
    """Return a table with **best**, _second_, and a footnote for each check."""
    styles = {"best": "**{}**", "second": "_{}_", "": "{}"}

    def show(cell: Document) -> str:
        return f"{styles[cell['mark']].format(_figures(cell))} [^{cell['footnote'] + 1}]"

    grid = [[cell.replace("|", "\\|") for cell in row] for row in _grid(document, show)]
    grid.insert(1, ["---", *["---:"] * (len(grid[0]) - 1)])
    lines = [f"> **{warning}**\n" for warning in document["warnings"]]
    lines += [f"| {' | '.join(row)} |" for row in grid]
    lines += [
        "",
        *(f"{note}  " for note in _notes(document, "**bold** is best, _italic_ is second best")),
        "",
    ]
    for number, study in enumerate(document["studies"], 1):
        lines.append(f"[^{number}]: " + "; ".join(_source(study)))
    return _joined(lines)


def latex(document: Document) -> str:
    r"""Return a `table` for booktabs: \textbf{best}, \underline{second}, the checks as notes below."""
    styles = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}

    def show(cell: Document) -> str:
        figures = styles[cell["mark"]] % tex(_figures(cell))
        return rf"{figures}\textsuperscript{{{cell['footnote'] + 1}}}"

    grid = _grid(document, show, tex)
    rows = [" & ".join(row) + r" \\" for row in grid]
    legend = _notes(document, "bold is best, underlined is second best")
    notes = [tex(note) for note in [*document["warnings"], *legend]]
    notes += [
        rf"\textsuperscript{{{number}}} " + tex("; ".join(_source(study)))
        for number, study in enumerate(document["studies"], 1)
    ]
    return _joined(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            r"\begin{tabular}{l" + "r" * (len(grid[0]) - 1) + "}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\par\medskip\footnotesize",
            *(f"{note}\\par" for note in notes),
            r"\end{table}",
        ]
    )


def comma_separated(document: Document) -> str:
    """Return a line for every cell; scores are fractions."""
    table = io.StringIO()
    writer = csv.DictWriter(table, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for cell in document["cells"]:
        column = document["columns"][cell["column"]]
        warning = document["warnings"][0] if column["protocol"] == "conventional" else ""
        runs = " ".join(cell["model_run_ids"])
        writer.writerow({**cell, **column, "model_run_ids": runs, "warning": warning})
    return printable(table.getvalue())


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": comma_separated,
    "latex": latex,
}


def tex(plain: str) -> str:
    """Return `plain` with TeX's special characters escaped."""
    return "".join(_TEX.get(sign, sign) for sign in plain)


def heading(column: Document) -> str:
    """`cub MAP@R`, `cub MAP@R joined` for the folds' models put together."""
    joined = " joined" if column["score"] == "ensemble" else ""
    return f"{column['title']} {formatting.metric_name(column['metric'])}{joined}"


def _grid(
    document: Document, show: Callable[[Document], str], escape: Callable[[str], str] = str
) -> list[list[str]]:
    """Return the header and the rows; a dash where a check has no figure."""
    cells = {(cell["row"], cell["column"]): show(cell) for cell in document["cells"]}
    columns = range(len(document["columns"]))
    header = ["", *(escape(heading(column)) for column in document["columns"])]
    rows = [[escape(r), *(cells.get((r, c), escape("–")) for c in columns)] for r in document["rows"]]
    return [[printable(cell) for cell in row] for row in [header, *rows]]


def _blocks(grid: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Return the table in blocks of as many columns as fit a line."""
    widths = [max(len(row[place]) for row in grid) for place in range(len(grid[0]))]
    groups: list[list[int]] = [[]]
    for place in range(1, len(widths)):
        if groups[-1] and widths[0] + sum(widths[p] + 2 for p in [*groups[-1], place]) > WIDTH:
            groups.append([])
        groups[-1].append(place)
    return [[[row[0], *(row[place] for place in group)] for row in grid] for group in groups]


def _figures(cell: Document) -> str:
    mean = f"{100 * cell['mean']:.2f}"
    if cell["low"] is None or cell["high"] is None:
        return mean
    return f"{mean} ±{50 * (cell['high'] - cell['low']):.2f}"


def _notes(document: Document, marks: str) -> list[str]:
    joined = any(column["score"] == "ensemble" for column in document["columns"])
    return [MEANS, f"{marks}, {LEGEND}", *([JOINED] if joined else [])]


def _source(study: Document) -> list[str]:
    """Return the origin of a cell in two lines."""
    look = "; not the first look at these classes" if study["again"] else ""
    return [
        f"{study['study']}: run {study['run_id']}",
        f"commit {study['commit'] or 'unknown'}, data {', '.join(study['data'])}{look}",
    ]


def _joined(lines: Sequence[str]) -> str:
    return printable("\n".join(lines) + "\n")
