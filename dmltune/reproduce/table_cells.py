"""A paper's table with the measured figure beside every printed one."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dmltune.check.document import ConfigurationResult, Figure
from dmltune.data import catalog
from dmltune.reproduce import table_studies
from dmltune.reproduce.paper_tables import PaperCell, Table, cells, digits, values_of
from dmltune.reproduce.table_studies import TableCheck, TableSelection
from dmltune.tables.finished_checks import FinishedCheck


@dataclass(frozen=True)
class OurCell:
    """What stands below a printed figure. `state` is done, partly, not run, failed, …"""

    ours: Figure = None
    low: Figure = None
    high: Figure = None
    spread: Figure = None  # after ±, where the print has the same
    models: int = 0
    study: str = ""
    reason: str = ""
    state: str = "done"


def document(
    selection: TableSelection, checks: Sequence[FinishedCheck], data_root: Path | None
) -> dict[str, Any]:
    """Return the table as JSON types; scores are fractions."""
    table, source = selection.table, selection.source
    view = _View(selection, {check.name: check for check in checks}, data_root)
    return {
        "table": selection.name,
        "about": table.about,
        "source": table.source,
        "protocol": table.protocol,
        "folds": source.folds,
        "repeats": source.repeats,
        "reported": table.reported,
        "plus_minus": table.plus_minus,
        "unit": table.unit,
        "digits": digits(table),
        "notes": list(table.notes),
        "data": [
            {
                "label": data,
                "name": table.data[data].name,
                "columns": list(table.columns_of(data)),
                "missing": view.missing[data],
            }
            for data in selection.data
        ],
        "rows": [
            {
                "row": label,
                "part": table.parts[row.part].about if row.part else "",
                "cannot": source.why_not(selection.trained_as(label)),
                "note": row.note,
            }
            for label, row in table.rows.items()
            if label in selection.rows
        ],
        "cells": [
            asdict(cell) | asdict(view.cell(cell))
            for cell in cells(table)
            if cell.row in selection.rows and cell.data in selection.data
        ],
        "gains": [
            gain for row in selection.rows for data in selection.data if (gain := view.gain(row, data))
        ],
        "studies": [view.study(study) for study in selection.studies()],
    }


def result_of(check: FinishedCheck | None, row: str) -> ConfigurationResult | None:
    """Return the result of a row; rows with equal configurations share a result."""
    results = check.document.configurations if check else ()
    return next(
        (result for result in results if result.key == table_studies.key_of(row) or row in result.labels),
        None,
    )


class _View:
    """A selection beside the finished checks of a store."""

    def __init__(
        self, selection: TableSelection, checks: Mapping[str, FinishedCheck], data_root: Path | None
    ) -> None:
        self._selection, self._checks, self._data_root = selection, checks, data_root
        self.missing = {
            data: table_studies.missing(selection.table, data, data_root) for data in selection.data
        }

    def cell(self, cell: PaperCell) -> OurCell:
        row, away = self._selection.trained_as(cell.row), self.missing[cell.data]
        if reason := self._selection.source.why_not(row):
            return OurCell(state="cannot", reason=reason)
        if self._selection.table.protocol == table_studies.FACTS:
            if away:
                return OurCell(state="data missing", reason=away)
            name = self._selection.table.data[cell.data].name
            return OurCell(float(len(catalog.files(name, "train", self._data_root)[0].category_names)))
        check = self._check(cell.data, row)
        result = result_of(check, row)
        if check is None or result is None:
            return OurCell(state="data missing" if away else "not run", reason=away)
        return _cell_of(self._selection.table, cell, check, result)

    def gain(self, row: str, data: str) -> dict[str, Any] | None:
        """Return the difference to the row's baseline, theirs as printed, ours as paired."""
        table, trained = self._selection.table, self._selection.trained_as(row)
        baseline = self._selection.source.baseline(trained)
        check = self._check(data, trained)
        result = result_of(check, trained)
        versus = result.versus_baseline if result else None
        if check is None or versus is None or baseline == trained or table.trainings:
            return None
        metric = check.document.metric
        printed = {
            cell.row: cell.theirs
            for cell in cells(table)
            if cell.data == data and cell.score in ("single", "validation") and cell.metric == metric
        }
        theirs, base = printed.get(row), printed.get(baseline)
        return {
            "row": row,
            "data": data,
            "baseline": baseline,
            "metric": metric,
            "theirs": None if theirs is None or base is None else round(theirs - base, 6),
            "ours": versus.difference,
            "low": versus.low,
            "high": versus.high,
            "p": versus.p_holm,
        }

    def study(self, study: TableCheck) -> dict[str, Any]:
        """Return a check, and its settings that differ from the table's."""
        check = self._checks.get(study.name)
        facts = {
            "study": study.name,
            "data": study.data,
            "baseline": study.baseline,
            "rows": list(study.rows),
        }
        if check is None:
            return facts | {"state": "not run"}
        complete = all(result_of(check, row) for row in study.rows)
        tree = check.document.to_dict()
        shown = ("commit", "fingerprint", "protocol", "folds", "repeats", "failed", "again", "warning")
        return {
            **facts,
            "state": "stopped" if check.document.stopped else "done" if complete else "partly",
            "run_id": check.run_id,
            **{key: tree.get(key) for key in shown},
            "changes": changes(self._selection.source, study, check),
        }

    def _check(self, data: str, row: str) -> FinishedCheck | None:
        baseline = self._selection.source.baseline(row)
        return self._checks.get(table_studies.study_name(self._selection.prefix, data, baseline))


def _cell_of(table: Table, cell: PaperCell, check: FinishedCheck, result: ConfigurationResult) -> OurCell:
    models, planned = len(result.models), check.document.folds * check.document.repeats
    if not models:
        member = re.compile(rf"{re.escape(result.key)}-fold\d+-seed\d+")
        failed = [reason for name, reason in check.document.failed.items() if member.fullmatch(name)]
        return OurCell(study=check.name, state="failed" if failed else "not run", reason="".join(failed[:1]))
    ours, low, high = _figure(table, cell, result)
    spread = _spread(cell, result) if table.plus_minus else None
    state, reason = "done", ""
    if ours is None:
        state, reason = "not measured", f"a check does not measure {cell.column}"
    elif models < planned:
        state, reason = "partly", f"{models} of {planned} models"
    return OurCell(ours, low, high, spread, models, check.name, reason, state)


def _figure(table: Table, cell: PaperCell, result: ConfigurationResult) -> tuple[Figure, Figure, Figure]:
    """Return our figure and the ends of its interval, as far as they are known.

    Where the print has the best of the repeats, all figures are those of the model with the best score in
    the monitoring; an interval has no meaning then.
    """
    if table.reported == "best" and cell.score == "single":
        best = max(result.models, key=lambda model: model.validation or 0.0)
        return best.test.get(cell.metric), None, None
    if cell.score in ("single", "ensemble"):
        figure = getattr(result, cell.score).get(cell.metric)
        return (figure.mean, figure.low, figure.high) if figure else (None, None, None)
    values = [model.step if cell.score == "steps" else model.validation for model in result.models]
    known = [value for value in values if value is not None]
    return (statistics.fmean(known) if known else None), None, None


def _spread(cell: PaperCell, result: ConfigurationResult) -> Figure:
    """Return the standard deviation over all collections of one model of each fold.

    Of `ensemble` the figures of the collections; of `single` their models' mean. F folds with R repeats: the
    mean has the variance Σ_f σ_f²/F² over all K = R^F collections, times K/(K − 1) as for a sample.
    """
    if cell.score == "ensemble":
        figure = result.ensemble.get(cell.metric)
        return figure.sd if figure else None
    by_fold: dict[int, list[float]] = {}
    for model in result.models:
        if (score := model.test.get(cell.metric)) is not None:
            by_fold.setdefault(model.fold, []).append(score)
    collections = math.prod(map(len, by_fold.values()))
    if cell.score != "single" or collections < 2:
        return None
    variance = sum(statistics.pvariance(scores) for scores in by_fold.values()) / len(by_fold) ** 2
    return math.sqrt(variance * collections / (collections - 1))


def changes(source: Table, study: TableCheck, check: FinishedCheck) -> dict[str, Any]:
    """Return dotted key → value of what was trained otherwise than the table says."""
    changed: dict[str, Any] = {}
    if check.document.protocol != source.protocol:
        changed["protocol"] = check.document.protocol
    for row in study.rows:
        result = result_of(check, row)
        own = values_of(source.overrides_of(row, study.data))
        trained = result.values if result else {}
        changed |= {key: value for key, value in trained.items() if key not in own or own[key] != value}
    return changed
