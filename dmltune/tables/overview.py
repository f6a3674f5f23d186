"""All checks as one table: configurations are rows, data sets are columns.

A column has one data set, one fingerprint of its test classes and one protocol. Its best and second are
marked where the difference to the next is significant. Models of two configurations are paired by fold and
seed where both have them. Otherwise they are two samples, compared with Welch's test.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dmltune.check.comparison import compare_scores, holm
from dmltune.check.document import CheckDocument, ConfigurationResult
from dmltune.check.protocols import reads_test_classes
from dmltune.errors import UserError, readable
from dmltune.experiment.problems import near_or_list
from dmltune.report.check_sentences import is_untrained
from dmltune.report.summary import warning
from dmltune.tables.finished_checks import FinishedCheck

ROLES = re.compile(r"winner|reference|reference point|baseline|trial \d+")
SINGLE, ENSEMBLE = "single", "ensemble"
LEVEL = 0.95
FEWEST_PAIRS = 2
Scores = Mapping[tuple[int, int], float]  # (fold, seed) → score of a model


@dataclass(frozen=True)
class OverviewColumn:
    """`score` is `single` models or `ensemble`, the models of all folds together."""

    data: str
    protocol: str
    fingerprint: str
    metric: str
    score: str


@dataclass(frozen=True)
class OverviewCell:
    """A configuration in a column. `mark` is best, second or nothing.

    `p_next` is of the difference to the next in the column, corrected for the tests of the column.
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
    scores: Scores
    mark: str = ""
    p_next: float | None = None
    seen_before: bool = False


def overview(
    checks: Sequence[FinishedCheck], metrics: Sequence[str] = ("map_at_r",), ensemble: bool = False
) -> list[OverviewCell]:
    """Return every measured cell of these checks, with marks."""
    _require_known(metrics, checks)
    titled = _distinguished([cell for check in checks for cell in _cells(check, metrics, ensemble)])
    rows = list(dict.fromkeys(cell.row for cell in titled))
    columns = _sorted(dict.fromkeys(cell.column for cell in titled))
    marked = []
    for column in columns:
        cells = [cell for cell in titled if cell.column == column]
        if column.score == SINGLE:  # no test compares ensembles, which share models
            places = ranked([(cell.scores, cell.mean) for cell in cells])
            cells = [replace(cells[place.index], mark=place.mark, p_next=place.p_next) for place in places]
        marked += cells
    return sorted(marked, key=lambda cell: (rows.index(cell.row), columns.index(cell.column)))


def document(cells: Sequence[OverviewCell]) -> dict[str, Any]:
    """Return JSON types; scores are fractions. Cells refer to columns and studies by number."""
    columns = _sorted(dict.fromkeys(cell.column for cell in cells))
    studies = sorted({(cell.study, cell.run_id, cell.commit, cell.seen_before) for cell in cells})
    numbers = {study: number for number, (study, *_) in enumerate(studies)}
    titles = _titles(columns)
    return {
        "columns": [{"title": titles[column], **asdict(column)} for column in columns],
        "rows": list(dict.fromkeys(cell.row for cell in cells)),
        "cells": [
            {
                key: value
                for key, value in vars(cell).items()
                if key not in ("column", "scores", "seen_before")
            }
            | {"column": columns.index(cell.column), "footnote": numbers[cell.study]}
            for cell in cells
        ],
        "studies": [
            {
                "study": study,
                "run_id": run_id,
                "commit": commit,
                "again": seen_before,
                "data": sorted(
                    {f"{c.column.data}:{c.column.fingerprint}" for c in cells if c.study == study}
                ),
                "models": sum(
                    cell.models
                    for cell in {(c.study, c.row): c for c in cells}.values()
                    if cell.study == study
                ),
            }
            for study, run_id, commit, seen_before in studies
        ],
        "warnings": list(dict.fromkeys(text for column in columns if (text := warning(column.protocol)))),
    }


def _cells(check: FinishedCheck, metrics: Sequence[str], ensemble: bool) -> list[OverviewCell]:
    document = check.document
    return [
        OverviewCell(
            row=title(document, result),
            column=OverviewColumn(document.data, document.protocol, document.fingerprint, metric, score),
            mean=figure.mean,
            low=figure.low,
            high=figure.high,
            sd=getattr(figure, "sd", None),
            models=len(result.models),
            study=check.name,
            configuration=result.key,
            digest=result.digest,
            run_id=check.run_id,
            commit=document.commit,
            model_run_ids=tuple(model.run_id for model in result.models),
            scores={
                (model.fold, model.seed): value
                for model in result.models
                if (value := document.score(model, metric)) is not None
            },
            seen_before=document.seen_before,
        )
        for result in document.configurations
        for metric in metrics
        for score in ((SINGLE, ENSEMBLE) if ensemble else (SINGLE,))
        if (figure := getattr(result, score).get(metric)) is not None and figure.mean is not None
    ]


def title(document: CheckDocument, result: ConfigurationResult) -> str:
    """Return `ccp winner` for a search of cub-ccp; a row of a paper's table has its own name."""
    labels = result.labels or (result.key,)
    if own := [label for label in labels if not ROLES.fullmatch(label)]:
        return " = ".join(own)
    name = " = ".join(labels) + (" (untrained)" if is_untrained(result) else "")
    parts = document.space_name.split("-")
    while parts and document.data.startswith(parts[0]):  # cars-ccp of cars196
        parts = parts[1:]
    return " ".join(filter(None, ["-".join(parts), name]))


def _distinguished(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """Add the check's name to rows of the same name, on the same data, of different checks."""
    cells_of_checks = {(cell.row, cell.column, cell.study) for cell in cells}
    counts = Counter((row, column) for row, column, _ in cells_of_checks)
    shared = {row for (row, _), count in counts.items() if count > 1}
    return [replace(cell, row=f"{cell.row} · {cell.study}") if cell.row in shared else cell for cell in cells]


def _sorted(columns: Mapping[OverviewColumn, None]) -> list[OverviewColumn]:
    """Return the columns in their order, those of one data set side by side."""
    sets = list(dict.fromkeys((column.data, column.protocol, column.fingerprint) for column in columns))
    return sorted(columns, key=lambda column: sets.index((column.data, column.protocol, column.fingerprint)))


def _titles(columns: Sequence[OverviewColumn]) -> dict[OverviewColumn, str]:
    """Return the data sets, with protocol and fingerprint where they differ."""
    sets = {(column.data, column.protocol, column.fingerprint) for column in columns}
    names = Counter(data for data, _, _ in sets)
    protocols = Counter((data, protocol) for data, protocol, _ in sets)
    titles = {}
    for column in columns:
        distinct = names[column.data] > 1 or warning(column.protocol)
        more = [column.protocol] if distinct and reads_test_classes(column.protocol) else []
        more += [] if reads_test_classes(column.protocol) else [f"{column.protocol}, validation classes"]
        more += [column.fingerprint[:6]] if protocols[column.data, column.protocol] > 1 else []
        titles[column] = column.data + (f" ({', '.join(more)})" if more else "")
    return titles


def _require_known(metrics: Sequence[str], checks: Sequence[FinishedCheck]) -> None:
    results = [result for check in checks for result in check.document.configurations]
    known = dict.fromkeys(metric for result in results for metric in result.single)
    for metric in metrics:
        if known and metric not in known:
            raise UserError(f"no metric {readable(metric)} in these checks{near_or_list(metric, known)}")


@dataclass(frozen=True)
class Place:
    """`index` of a candidate; `p_next` is of the difference to the next, if known."""

    index: int
    mark: str
    p_next: float | None


def ranked(candidates: Sequence[tuple[Scores, float]]) -> list[Place]:
    """Return the candidates (scores, mean) from the highest mean on.

    Two tests are made, best against second and second against third, with Holm's correction. The second is
    marked only below a marked best.
    """
    order = sorted(range(len(candidates)), key=lambda index: -candidates[index][1])
    scores = [candidates[index][0] for index in order[:3]]
    p_values = [p_value(left, right) for left, right in itertools.pairwise(scores)]
    corrected = holm([math.nan if p is None else p for p in p_values])
    significant = list(itertools.takewhile(lambda p: p < 1 - LEVEL, corrected))
    marks = ("best", "second")[: len(significant)]
    return [
        Place(index, mark or "", None if p is None or math.isnan(p) else p)
        for index, mark, p in itertools.zip_longest(order, marks, corrected)
    ]


def p_value(left: Scores, right: Scores) -> float | None:
    """Return the two-sided p of the difference; None when it cannot be measured."""
    pairs = sorted(set(left) & set(right))
    if len(pairs) >= FEWEST_PAIRS:
        folds = np.array([fold for fold, _ in pairs])
        ours, base = (np.array([side[pair] for pair in pairs]) for side in (left, right))
        p = compare_scores(ours, base, folds, LEVEL).p
        if math.isfinite(p):
            return p
    if min(len(left), len(right)) < 2:
        return None
    (ours, folds), (base, base_folds) = (
        (np.array(list(side.values())), np.array([fold for fold, _ in side])) for side in (left, right)
    )
    if np.ptp(ours) == np.ptp(base) == 0:
        return None  # equal scores say nothing about other seeds
    p = compare_scores(ours, base, folds, LEVEL, base_fold_M=base_folds).p
    return p if math.isfinite(p) else None
