"""The table of all checks in every format: every cell is there, marked, and says where it is from."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from dmltune.report.table_formats import FORMATS, comma_separated, latex, markdown, tex, text


def column(
    title: str, metric: str = "map_at_r", score: str = "single", protocol: str = "fair"
) -> dict[str, Any]:
    return {
        "title": title,
        "data": title,
        "protocol": protocol,
        "fingerprint": f"print-{title}",
        "metric": metric,
        "score": score,
    }


def cell(row: str, place: int, mean: float, mark: str = "", footnote: int = 0, **more: Any) -> dict[str, Any]:
    made = {
        "row": row,
        "column": place,
        "mean": mean,
        "low": mean - 0.0061,
        "high": mean + 0.0061,
        "sd": 0.009,
        "models": 12,
        "mark": mark,
        "p_next": 0.003 if mark else None,
        "study": f"study-{footnote}",
        "configuration": row,
        "digest": "0123456789ab",
        "run_id": f"run-{footnote}",
        "commit": "e0934e0c2d7a",
        "model_run_ids": ("m1", "m2"),
        "footnote": footnote,
    }
    return made | more


@pytest.fixture
def table() -> dict[str, Any]:
    return {
        "columns": [column("cub"), column("cars_196 & co")],
        "rows": ["ccp winner", "50% | baseline"],
        "cells": [
            cell("ccp winner", 0, 0.2483, "best"),
            cell("50% | baseline", 0, 0.2412, "second"),
            cell("ccp winner", 1, 0.4, footnote=1, low=None, high=None),
        ],
        "studies": [
            {
                "study": f"study-{n}",
                "run_id": f"run-{n}",
                "commit": "e0934e0c2d7a",
                "again": bool(n),
                "data": ["cub:1a"],
            }
            for n in range(2)
        ],
        "warnings": [],
    }


def test_every_format_has_every_figure_run_commit_and_data(table: dict[str, Any]) -> None:
    for form, render in FORMATS.items():
        output = render(table)
        figures = ("0.2483", "0.2412", "0.4,") if form == "csv" else ("24.83", "24.12", "40.00")
        for part in (*figures, "run-0", "run-1", "e0934e0c2d7a", "print-cub" if form == "csv" else "cub:1a"):
            assert part in output, form
        assert output.endswith("\n")


def test_text_stars_the_best_and_the_second_and_explains_the_stars(table: dict[str, Any]) -> None:
    lines = text(table).splitlines()
    assert "24.83 ±0.61** [1]" in lines[1]
    assert "24.12 ±0.61*  [1]" in lines[2]
    assert lines[1].endswith("40.00   [2]")  # one model has no interval
    assert lines[2].rstrip().endswith("–")
    output = " ".join(" ".join(lines).split())
    assert (
        "** is best, * is second best, where the difference to the next is more than chance (p < 0.05, Holm)"
        in output
    )
    assert "not the first look" in output
    assert max(map(len, lines)) <= 80


def test_text_puts_columns_that_do_not_fit_below() -> None:
    many = [column(f"data-set-{n}") for n in range(9)]
    table = {
        "columns": many,
        "rows": ["a"],
        "cells": [cell("a", n, 0.1 * n) for n in range(9)],
        "studies": [],
        "warnings": [],
    }
    lines = text(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("a ") for line in lines) > 1
    assert all(sum(f"data-set-{n} " in line for line in lines) == 1 for n in range(9))


def test_markdown_is_a_table_with_as_many_bars_in_every_line(table: dict[str, Any]) -> None:
    output = markdown(table)
    rows = [line for line in output.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert "**24.83 ±0.61** [^1]" in output
    assert "_24.12 ±0.61_ [^1]" in output
    assert r"50% \| baseline" in output
    assert "\n[^2]: study-1: run run-1" in output


def test_the_legend_of_markdown_names_its_marks(table: dict[str, Any]) -> None:
    """`** _: best …` would be shown as it is: a mark without text is no Markdown."""
    output = markdown(table)
    assert "\n**bold** is best, _italic_ is second best, where the difference" in output
    assert "_:" not in output


def test_latex_escapes_and_marks_and_every_row_has_as_many_cells(table: dict[str, Any]) -> None:
    output = latex(table)
    assert r"\textbf{24.83 $\pm$0.61}\textsuperscript{1}" in output
    assert r"\underline{24.12 $\pm$0.61}\textsuperscript{1}" in output
    assert r"50\% | baseline" in output
    assert r"cars\_196 \& co" in output
    body = output.split(r"\toprule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {2}
    assert output.count(r"\begin{") == output.count(r"\end{") == 2
    assert not re.search(r"(?<!\\)[%#_](?! needs)", output.replace("% needs", ""))


def test_csv_has_a_line_for_every_cell_in_fractions(table: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    assert [(row["row"], row["data"], row["mark"]) for row in rows] == [
        ("ccp winner", "cub", "best"),
        ("50% | baseline", "cub", "second"),
        ("ccp winner", "cars_196 & co", ""),
    ]
    assert float(rows[0]["mean"]) == 0.2483
    assert rows[2]["low"] == ""
    assert rows[0]["model_run_ids"] == "m1 m2"
    assert (rows[0]["fingerprint"], rows[0]["commit"], rows[0]["run_id"]) == (
        "print-cub",
        "e0934e0c2d7a",
        "run-0",
    )


def test_conventional_figures_carry_their_warning_in_every_format(table: dict[str, Any]) -> None:
    warning = "conventional protocol: these figures were monitored on the test classes"
    table["warnings"] = [warning]
    table["columns"][0] = column("cub", protocol="conventional")
    for form, render in FORMATS.items():
        assert warning in " ".join(render(table).split()), form


def test_control_characters_of_names_are_escaped_in_every_format(table: dict[str, Any]) -> None:
    table["rows"][0] = table["cells"][0]["row"] = table["cells"][2]["row"] = "a\x1b[31m\udcff"
    for form, render in FORMATS.items():
        output = render(table)
        assert "\x1b" not in output, form
        assert "x1b[31m" in output, form
        output.encode()
    assert max(map(len, text(table).splitlines())) <= 80


def test_ensembles_are_a_column_of_their_own_that_is_explained(table: dict[str, Any]) -> None:
    table["columns"][1] = column("cub", score="ensemble")
    output = text(table)
    assert "cub MAP@R joined" in output
    assert "no test compares them" in output


def test_signs_of_tex_are_only_signs() -> None:
    assert tex("a_b & 5 % #1 {x} ~^\\") == (
        r"a\_b \& 5 \% \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    assert tex("m 16 μ 0.3 ±1") == r"m 16 $\mu$ 0.3 $\pm$1"
