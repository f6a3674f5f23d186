"""The part of a paper's table that is shown or trained, and the checks that belong to it.

A baseline and the rows compared with it are one check on one data set, such as `table-3.1-CUB-C2`: all of
them have one protocol and one set of seeds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmltune.data import catalog
from dmltune.errors import UserError
from dmltune.experiment.files import places
from dmltune.experiment.problems import near_or_list, show
from dmltune.reproduce.paper_tables import Table, load_table, load_trainings

FACTS = "facts"


@dataclass(frozen=True)
class TableCheck:
    """One check: the `rows` that are compared with `baseline` on one of the table's data sets."""

    name: str
    data: str
    baseline: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class TableSelection:
    """Rows and data sets of a table; `source` is the table with their trainings."""

    name: str
    prefix: str
    table: Table
    source: Table
    data: tuple[str, ...]
    rows: tuple[str, ...]

    def trained_as(self, row: str) -> str:
        """Return the row of `source` that has this row's trainings."""
        return self.table.rows[row].as_ or row

    def studies(self) -> list[TableCheck]:
        """Return the checks of the selection in the order of print. Each includes its baseline."""
        if self.table.protocol == FACTS:
            return []
        groups: dict[tuple[str, str], list[str]] = {}
        for data in self.data:
            for row in self.rows:
                trained = self.trained_as(row)
                if not self.source.why_not(trained) and data in self.table.rows[row].theirs:
                    baseline = self.source.baseline(trained)
                    groups.setdefault((data, baseline), [baseline]).append(trained)
        return [
            TableCheck(study_name(self.prefix, data, baseline), data, baseline, tuple(dict.fromkeys(rows)))
            for (data, baseline), rows in groups.items()
        ]


def select_table(
    table_name: str, name: str | None = None, rows: Sequence[str] = (), data: Sequence[str] = ()
) -> TableSelection:
    """Return the table of this name, or these rows and data sets of it."""
    table = load_table(table_name)
    stem = Path(table_name).stem if places.is_path(table_name) else table_name
    return TableSelection(
        table_name,
        name or f"table-{table.trainings or stem}",
        table,
        load_trainings(table),
        _chosen(data, table.data, "data", {chosen.name: label for label, chosen in table.data.items()}),
        _chosen(rows, table.rows, "row"),
    )


def key_of(row: str) -> str:
    """Return a row's name as a part of file names: `C1+XBM 128 [14]` → `C1-XBM-128-14`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", row).strip("-.")


def study_name(prefix: str, data: str, baseline: str) -> str:
    return f"{prefix}-{key_of(data)}-{key_of(baseline)}"


def missing(table: Table, data: str, data_root: Path | None) -> str:
    """Return why the training half of this data set cannot be read, or nothing."""
    try:
        catalog.files(table.data[data].name, "train", data_root)
    except UserError as error:
        return str(error)
    return ""


def _chosen(
    requested: Sequence[str], known: Mapping[str, Any], what: str, aliases: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the requested labels in the order of print, or all. Case does not matter."""
    lower = {label.lower(): label for label in known} | {k.lower(): v for k, v in (aliases or {}).items()}
    labels = []
    for name in requested:
        label = name if name in known else lower.get(name.strip().lower())
        if label is None:
            raise UserError(f"no {what} {show(name)} in this table{near_or_list(name, known)}")
        labels.append(label)
    return tuple(label for label in known if label in labels) if requested else tuple(known)
