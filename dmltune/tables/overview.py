"""All checks as one table: configurations are rows, data sets are columns, and marks are earned.

Columns hold only what was measured alike: one data set, one fingerprint of its test classes, one protocol.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment.problems import near_or_list
from dmltune.report.summary import warning
from dmltune.tables.finished_checks import Checked
from dmltune.tables.ranking import ranked

ROLES = re.compile(r"winner|reference|reference point|baseline|trial \d+")
SINGLE, ENSEMBLE = "single", "ensemble"


@dataclass(frozen=True)
class OverviewColumn:
    """`score`: single models, or the models of all folds put together (`ensemble`)."""

    data: str
    protocol: str
    fingerprint: str
    metric: str
    score: str


@dataclass(frozen=True)
class OverviewCell:
    """A configuration in a column. `p_next` is of the difference to the next best in its column, corrected
    for the tests of the column; `mark` is best, second or nothing.
    """

    row: str
    column: OverviewColumn
    mean: float
    low: float | None
    high: float | None
    sd: float | None
    models: int
    study: str
    configuration: str
    digest: str
    run_id: str
    commit: str
    model_run_ids: tuple[str, ...]
    scores: Mapping[tuple[int, int], float]  # (fold, seed) → score of the model
    df: float | None = None
    mark: str = ""
    p_next: float | None = None
    again: bool = False


def overview(
    checked: Sequence[Checked], metrics: Sequence[str] = ("map_at_r",), ensemble: bool = False
) -> list[OverviewCell]:
    """Every measured cell of these checks, marked."""
    _check_metrics(checked, metrics)
    found = [cell for one in checked for cell in _cells(one, metrics, ensemble)]
    titled = _told_apart(found)
    columns = dict.fromkeys(cell.column for cell in titled)
    marked = [
        cell
        for column in columns
        for cell in _marked([cell for cell in titled if cell.column == column], column)
    ]
    order = {cell.row: place for place, cell in reversed(list(enumerate(titled)))}
    places = {column: place for place, column in enumerate(_sorted(columns))}
    return sorted(marked, key=lambda cell: (order[cell.row], places[cell.column]))


def document(cells: Sequence[OverviewCell]) -> dict[str, Any]:
    """JSON-able; scores are fractions. Columns and studies are numbered, cells name them by their number."""
    columns = _sorted(dict.fromkeys(cell.column for cell in cells))
    studies = sorted({(cell.study, cell.run_id, cell.commit, cell.again) for cell in cells})
    numbers = {study: number for number, (study, *_) in enumerate(studies)}
    titles = _titles(columns)
    return {
        "columns": [{"title": titles[one], **asdict(one)} for one in columns],
        "rows": list(dict.fromkeys(cell.row for cell in cells)),
        "cells": [
            {
                key: value
                for key, value in vars(cell).items()
                if key not in ("column", "scores", "df", "again")
            }
            | {"column": columns.index(cell.column), "footnote": numbers[cell.study]}
            for cell in cells
        ],
        "studies": [
            {
                "study": study,
                "run_id": run_id,
                "commit": commit,
                "again": again,
                "data": sorted(
                    {f"{c.column.data}:{c.column.fingerprint}" for c in cells if c.study == study}
                ),
                "models": sum(
                    cell.models
                    for cell in {(c.study, c.row): c for c in cells}.values()
                    if cell.study == study
                ),
            }
            for study, run_id, commit, again in studies
        ],
        "warnings": list(dict.fromkeys(said for one in columns if (said := warning(one.protocol)))),
    }


def _cells(checked: Checked, metrics: Sequence[str], ensemble: bool) -> list[OverviewCell]:
    document, found = checked.document, []
    for one in document["configurations"]:
        for metric in metrics:
            for score in (SINGLE, ENSEMBLE) if ensemble else (SINGLE,):
                figure = (one.get(score) or {}).get(metric) or {}
                if (mean := _known(figure.get("mean"))) is None:
                    continue
                column = OverviewColumn(
                    document["data"], document["protocol"], document["fingerprint"], metric, score
                )
                scores = {
                    (model["fold"], model["seed"]): float(value)
                    for model in one["models"]
                    if (value := _known(model["test"].get(metric))) is not None
                }
                found.append(
                    OverviewCell(
                        row=title(document, one),
                        column=column,
                        mean=mean,
                        low=_known(figure.get("low")),
                        high=_known(figure.get("high")),
                        sd=_known(figure.get("sd")),
                        df=_known(figure.get("df")),
                        models=len(one["models"]),
                        study=checked.name,
                        configuration=one["key"],
                        digest=one.get("digest", ""),
                        run_id=checked.run_id,
                        commit=document["commit"],
                        model_run_ids=tuple(model["run_id"] for model in one["models"]),
                        scores=scores,
                        again=bool(document.get("again")),
                    )
                )
    return found


def title(document: Mapping[str, Any], configuration: Mapping[str, Any]) -> str:
    """`ccp winner` for the winner of a search of cub-ccp; a row of a paper's table has its own name."""
    labels = [str(label) for label in configuration["labels"] or [configuration["key"]]]
    own = [label for label in labels if not ROLES.fullmatch(label)]
    if own:
        return " = ".join(own)
    words = str(document["space_name"]).split("-")
    while words and document["data"].startswith(words[0]):  # cars-ccp of cars196
        words = words[1:]
    return " ".join(filter(None, ["-".join(words), " = ".join(labels)]))


def _told_apart(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """Two checks with a row of the same name on the same data: both rows get the name of their check."""
    pairs = {(cell.row, cell.column, cell.study) for cell in cells}
    crowded = {
        row for (row, _), count in Counter((row, column) for row, column, _ in pairs).items() if count > 1
    }
    return [
        replace(cell, row=f"{cell.row} · {cell.study}") if cell.row in crowded else cell for cell in cells
    ]


def _marked(cells: Sequence[OverviewCell], column: OverviewColumn) -> list[OverviewCell]:
    """Collections of the same models depend on one another: no test compares ensembles."""
    if column.score == ENSEMBLE:
        return list(cells)
    return [
        replace(cells[place.index], mark=place.mark, p_next=place.p_next)
        for place in ranked([(cell.scores, cell.mean, cell.low, cell.high, cell.df) for cell in cells])
    ]


def _sorted(columns: Mapping[OverviewColumn, None]) -> list[OverviewColumn]:
    """As they come, all of one data set side by side."""
    sets = list(dict.fromkeys((one.data, one.protocol, one.fingerprint) for one in columns))
    return sorted(columns, key=lambda one: sets.index((one.data, one.protocol, one.fingerprint)))


def _titles(columns: Sequence[OverviewColumn]) -> dict[OverviewColumn, str]:
    """The data set, and what tells it from others of its name."""
    sets = {(one.data, one.protocol, one.fingerprint) for one in columns}
    names = Counter(data for data, _, _ in sets)
    protocols = Counter((data, protocol) for data, protocol, _ in sets)
    titles = {}
    for one in columns:
        more = [one.protocol] if names[one.data] > 1 or warning(one.protocol) else []
        more += [one.fingerprint[:6]] if protocols[one.data, one.protocol] > 1 else []
        titles[one] = one.data + (f" ({', '.join(more)})" if more else "")
    return titles


def _check_metrics(checked: Sequence[Checked], metrics: Sequence[str]) -> None:
    known = dict.fromkeys(
        metric
        for one in checked
        for row in one.document["configurations"]
        for metric in row.get("single") or {}
    )
    for metric in metrics:
        if known and metric not in known:
            raise UserError(f"no metric '{metric}' in these checks{near_or_list(metric, known)}")


def _known(number: Any) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
