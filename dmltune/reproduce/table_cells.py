"""Ours beside theirs: for every printed figure what this store has measured, or why it has nothing."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmltune.data import catalog
from dmltune.reproduce.paper_tables import PaperCell, Table, cells, digits, values_of
from dmltune.reproduce.table_studies import FACTS, Beside, TableCheck, key_of, missing, study_name
from dmltune.tables.finished_checks import Checked


def document(asked: Beside, found: Sequence[Checked], data_root: Path | None) -> dict[str, Any]:
    """The table as plain values: every figure of print and what is beside it; scores are fractions."""
    by_name = {one.name: one for one in found}
    away = {data: reason for data in asked.data if (reason := missing(asked.table, data, data_root))}
    listed = [one for one in cells(asked.table) if one.row in asked.rows and one.data in asked.data]
    studies = [(study, by_name.get(study.name)) for study in asked.studies()]
    return {
        "table": asked.name,
        "about": asked.table.about,
        "source": asked.table.source,
        "protocol": asked.table.protocol,
        "unit": asked.table.unit,
        "digits": digits(asked.table),
        "notes": list(asked.table.notes),
        "data": [
            {
                "label": data,
                "name": asked.table.data[data].name,
                "columns": list(asked.table.columns_of(data)),
                "missing": away.get(data, ""),
            }
            for data in asked.data
        ],
        "rows": [
            {
                "row": row,
                "part": asked.table.parts[chosen.part].about if chosen.part else "",
                "cannot": asked.source.why_not(asked.trained_as(row)),
                "note": chosen.note,
            }
            for row in asked.rows
            for chosen in [asked.table.rows[row]]
        ],
        "cells": [_cell(asked, one, by_name, away, data_root) for one in listed],
        "gains": [
            gain for row in asked.rows for data in asked.data if (gain := _gain(asked, row, data, by_name))
        ],
        "studies": [_study(asked, study, checked) for study, checked in studies],
    }


def configuration(checked: Checked | None, row: str) -> Mapping[str, Any] | None:
    """A row among the configurations of its check; equal ones have been merged under one key."""
    listed: Sequence[Mapping[str, Any]] = checked.document["configurations"] if checked else ()
    return next((one for one in listed if one["key"] == key_of(row) or row in one["labels"]), None)


def _cell(
    asked: Beside,
    cell: PaperCell,
    by_name: Mapping[str, Checked],
    away: Mapping[str, str],
    data_root: Path | None,
) -> dict[str, Any]:
    row = asked.trained_as(cell.row)
    ours: dict[str, Any] = {"ours": None, "low": None, "high": None, "models": 0, "study": "", "reason": ""}
    made = {**vars(cell), **ours}
    if reason := asked.source.why_not(row):
        return {**made, "state": "cannot", "reason": reason}
    if asked.table.protocol == FACTS:
        if cell.data in away:
            return {**made, "state": "data missing", "reason": away[cell.data]}
        return {**made, "ours": _fact(asked.table, cell, data_root), "state": "done"}
    name = study_name(asked.prefix, cell.data, asked.source.baseline(row))
    checked = by_name.get(name)
    found = configuration(checked, row)
    if checked is None or found is None:
        state, reason = ("data missing", away[cell.data]) if cell.data in away else ("not run", "")
        return {**made, "state": state, "reason": reason}
    models = found["models"]
    value = _value(cell, found)
    made |= {"study": name, "models": len(models), **value}
    failed = [reason for member, reason in checked.document["failed"].items() if _member_of(member, found)]
    if not models:
        state = "failed" if failed else "not run"
        return {**made, "state": state, "reason": failed[0] if failed else ""}
    if value["ours"] is None:
        return {**made, "state": "not measured", "reason": f"a check does not measure {cell.column}"}
    planned = checked.document["folds"] * checked.document["repeats"]
    if len(models) < planned:
        return {**made, "state": "partly", "reason": f"{len(models)} of {planned} models"}
    return {**made, "state": "done"}


def _member_of(member: str, found: Mapping[str, Any]) -> bool:
    return re.fullmatch(rf"{re.escape(found['key'])}-fold\d+-seed\d+", member) is not None


def _value(cell: PaperCell, found: Mapping[str, Any]) -> dict[str, Any]:
    """`ours` with the ends of its interval, as far as they are known."""
    models = found["models"]
    if cell.score in ("single", "ensemble"):
        figure = (found.get(cell.score) or {}).get(cell.metric) or {}
        return {
            "ours": _known(figure.get("mean")),
            "low": _known(figure.get("low")),
            "high": _known(figure.get("high")),
        }
    key = "step" if cell.score == "steps" else "validation"
    numbers = [number for model in models if (number := _known(model.get(key))) is not None]
    return {"ours": statistics.fmean(numbers) if numbers else None, "low": None, "high": None}


def _fact(table: Table, cell: PaperCell, data_root: Path | None) -> float:
    images, _ = catalog.files(table.data[cell.data].name, "train", data_root)
    return float(len(images.category_names))


def _gain(asked: Beside, row: str, data: str, by_name: Mapping[str, Checked]) -> dict[str, Any] | None:
    """What a row is above its baseline: theirs by the figures of print, ours by the paired comparison."""
    trained = asked.trained_as(row)
    baseline = asked.source.baseline(trained)
    checked = by_name.get(study_name(asked.prefix, data, baseline))
    found = configuration(checked, trained)
    versus = (found or {}).get("versus_baseline")
    if checked is None or not versus or baseline == trained or asked.table.trainings:
        return None
    printed = {
        one.row: one.theirs
        for one in cells(asked.table)
        if one.data == data and one.score == "single" and one.metric == checked.document["metric"]
    }
    mine, base = printed.get(row), printed.get(baseline)
    return {
        "row": row,
        "data": data,
        "baseline": baseline,
        "metric": checked.document["metric"],
        "theirs": None if mine is None or base is None else round(mine - base, 6),
        "ours": _known(versus["difference"]),
        "low": _known(versus.get("low")),
        "high": _known(versus.get("high")),
        "p": _known(versus.get("p_holm")),
    }


def _study(asked: Beside, study: TableCheck, checked: Checked | None) -> dict[str, Any]:
    """A check and how what it trained differs from the table's settings."""
    made = {"study": study.name, "data": study.data, "baseline": study.baseline, "rows": list(study.rows)}
    if checked is None:
        return {**made, "state": "not run"}
    document = checked.document
    there = [row for row in study.rows if configuration(checked, row)]
    kept = ("commit", "fingerprint", "protocol", "folds", "repeats", "failed", "again", "warning")
    return {
        **made,
        "state": "stopped"
        if document.get("stopped")
        else "done"
        if len(there) == len(study.rows)
        else "partly",
        "run_id": checked.run_id,
        **{key: document.get(key) for key in kept},
        "changes": changes(asked.source, study, checked),
    }


def changes(source: Table, study: TableCheck, checked: Checked) -> dict[str, Any]:
    """Dotted key → value of what was trained otherwise than the table says."""
    found: dict[str, Any] = {}
    for row in study.rows:
        trained = (configuration(checked, row) or {}).get("values", {})
        own = values_of(source.words(row, study.data))
        found |= {key: value for key, value in trained.items() if key not in own or own[key] != value}
    return found


def _known(number: Any) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
