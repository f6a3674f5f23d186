"""The table of all checks as text, Markdown, CSV or LaTeX, from the plain values of `overview.document`."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmltune.report import formatting

WIDTH = 80
Document = Mapping[str, Any]
LEGEND = (
    "best and second best are marked where the difference to the next is more than chance (p < 0.05, Holm)"
)
MEANS = "means of single models in percent, ± half of the 95 % confidence interval"
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
    """Blocks of columns, each at most 80 wide; ** is best, * second."""
    marked = any(cell["mark"] for cell in document["cells"])
    stars = {"best": "**", "second": "* ", "": "  " if marked else ""}
    grid = _grid(document, lambda cell: f"{_figures(cell)}{stars[cell['mark']]} [{cell['footnote'] + 1}]")
    lines = [line for said in document["warnings"] for line in _wrapped(f"! {said}")]
    lines += [""] if lines else []
    for block in _blocks(grid):
        widths = [max(len(row[place]) for row in block) for place in range(len(block[0]))]
        for row in block:
            cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            lines.append("  ".join(cells).rstrip())
        lines.append("")
    lines += [line for said in _notes(document, "** ", "* ") for line in _wrapped(said)]
    for number, study in enumerate(document["studies"], 1):
        first, second = _source(study)
        lines += [
            f"[{number}] {first}",
            *textwrap.wrap(second, WIDTH - 4, initial_indent="    ", subsequent_indent="    "),
        ]
    return "\n".join(lines) + "\n"


def markdown(document: Document) -> str:
    """**best**, _second_, and a footnote for each check."""
    styles = {"best": "**{}**", "second": "_{}_", "": "{}"}

    def cell(found: Document) -> str:
        figures = styles[found["mark"]].format(_figures(found))
        return f"{figures} [^{found['footnote'] + 1}]"

    grid = [[_md(one) for one in row] for row in _grid(document, cell)]
    lines = [f"> **{said}**\n" for said in document["warnings"]]
    lines += [_md_row(grid[0]), _md_row(["---", *["---:"] * (len(grid[0]) - 1)]), *map(_md_row, grid[1:]), ""]
    lines += [f"{said}  " for said in _notes(document, "**", "_")]
    lines.append("")
    for number, study in enumerate(document["studies"], 1):
        lines.append(f"[^{number}]: " + "; ".join(_source(study)))
    return "\n".join(lines) + "\n"


def latex(document: Document) -> str:
    r"""A `table` for booktabs: \textbf{best}, \underline{second}, the checks as notes below."""
    styles = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}

    def cell(found: Document) -> str:
        figures = styles[found["mark"]] % tex(_figures(found))
        return rf"{figures}\textsuperscript{{{found['footnote'] + 1}}}"

    grid = _grid(document, cell, tex)
    rows = [" & ".join(row) + r" \\" for row in grid]
    notes = [tex(said) for said in [*document["warnings"], MEANS, f"bold best, underlined second: {LEGEND}"]]
    notes += [
        rf"\textsuperscript{{{number}}} " + tex("; ".join(_source(study)))
        for number, study in enumerate(document["studies"], 1)
    ]
    return "\n".join(
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
            "",
        ]
    )


def comma_separated(document: Document) -> str:
    """A line for every cell; scores are fractions."""
    table = io.StringIO()
    writer = csv.DictWriter(table, CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for cell in document["cells"]:
        column = document["columns"][cell["column"]]
        warned = document["warnings"][0] if column["protocol"] == "conventional" else ""
        runs = " ".join(cell["model_run_ids"])
        writer.writerow({**cell, **column, "model_run_ids": runs, "warning": warned})
    return table.getvalue()


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "text": text,
    "markdown": markdown,
    "csv": comma_separated,
    "latex": latex,
}


def tex(said: str) -> str:
    return "".join(_TEX.get(sign, sign) for sign in said)


def heading(column: Document) -> str:
    """`cub MAP@R`, `cub MAP@R joined` for the folds' models put together."""
    joined = " joined" if column["score"] == "ensemble" else ""
    return f"{column['title']} {formatting.metric_name(column['metric'])}{joined}"


def _grid(
    document: Document, show: Callable[[Document], str], escape: Callable[[str], str] = str
) -> list[list[str]]:
    """The header and a line for each row; a dash where a check has nothing."""
    found = {(cell["row"], cell["column"]): show(cell) for cell in document["cells"]}
    columns = range(len(document["columns"]))
    header = ["", *(escape(heading(column)) for column in document["columns"])]
    return [
        header,
        *([escape(r), *(found.get((r, c), escape("–")) for c in columns)] for r in document["rows"]),
    ]


def _blocks(grid: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """As many columns side by side as fit."""
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


def _notes(document: Document, best: str, second: str) -> list[str]:
    joined = any(column["score"] == "ensemble" for column in document["columns"])
    more = ["joined: the models of all folds put together; no test compares them"] if joined else []
    return [MEANS, f"{best.strip()} {second.strip()}: {LEGEND}", *more]


def _source(study: Document) -> list[str]:
    """What a cell stands on: short enough for two lines."""
    again = "; not the first look at these classes" if study["again"] else ""
    return [
        f"{study['study']}: run {study['run_id']}",
        f"commit {study['commit'] or 'unknown'}, data {', '.join(study['data'])}{again}",
    ]


def _wrapped(said: str) -> list[str]:
    return textwrap.wrap(said, WIDTH, subsequent_indent="  ")


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _md(said: str) -> str:
    return said.replace("|", "\\|")
