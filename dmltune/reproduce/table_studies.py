"""What of a table is looked at: its rows on its data sets, and the checks that they are.

A group of rows, a baseline and those compared with it, is one check on one data set, by name
`table-3.1-CUB-C2`: so every row has its comparison under one protocol, with one set of seeds.
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
from dmltune.reproduce.paper_tables import Table, load_table

FACTS = "facts"


@dataclass(frozen=True)
class TableCheck:
    """One check: the rows of `table` that are compared with `baseline` on one of its data sets."""

    name: str
    data: str
    baseline: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Beside:
    """A table of this store. `source` is the table whose trainings are looked at, mostly itself."""

    name: str
    prefix: str
    table: Table
    source: Table
    data: tuple[str, ...]
    rows: tuple[str, ...]

    def trained_as(self, row: str) -> str:
        """The row of `source` that has this row's trainings."""
        return self.table.rows[row].as_ or row

    def studies(self) -> list[TableCheck]:
        """What is to be checked for the chosen rows and data sets, in the order of print. The baseline of a
        group comes with it: without it there is no comparison.
        """
        groups: dict[tuple[str, str], list[str]] = {}
        for data in self.data:
            for row in self.rows:
                source = self.trained_as(row)
                if self.source.why_not(source) or data not in self.table.rows[row].theirs:
                    continue
                baseline = self.source.baseline(source)
                groups.setdefault((data, baseline), [baseline]).append(source)
        if self.table.protocol == FACTS:
            return []
        return [
            TableCheck(study_name(self.prefix, data, baseline), data, baseline, tuple(dict.fromkeys(rows)))
            for (data, baseline), rows in groups.items()
        ]


def beside(
    table_name: str, name: str | None = None, rows: Sequence[str] = (), data: Sequence[str] = ()
) -> Beside:
    """The table of this name, or the chosen rows and data sets of it."""
    table = load_table(table_name)
    source = load_table(table.trainings) if table.trainings else table
    own = Path(table_name).stem if places.is_path(table_name) else table_name
    prefix = name or f"table-{table.trainings or own}"
    return Beside(
        table_name,
        prefix,
        table,
        source,
        _chosen(data, table.data, "data", {one.name: label for label, one in table.data.items()}),
        _chosen(rows, table.rows, "row"),
    )


def key_of(row: str) -> str:
    """A row's name as a part of file names: `C1+XBM 128 [14]` → `C1-XBM-128-14`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", row).strip("-.")


def study_name(prefix: str, data: str, baseline: str) -> str:
    return f"{prefix}-{key_of(data)}-{key_of(baseline)}"


def missing(table: Table, data: str, data_root: Path | None) -> str:
    """Why the training half of this data set cannot be read, or nothing. The test half is not looked at."""
    try:
        catalog.files(table.data[data].name, "train", data_root)
    except UserError as error:
        return str(error)
    return ""


def _chosen(
    wanted: Sequence[str], known: Mapping[str, Any], what: str, aliases: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The wanted labels in the order of print; all when none is wanted. Case does not matter."""
    lower = {label.lower(): label for label in known} | {k.lower(): v for k, v in (aliases or {}).items()}
    found = []
    for word in wanted:
        label = word if word in known else lower.get(word.strip().lower())
        if label is None:
            raise UserError(f"no {what} {show(word)} in this table{near_or_list(word, known)}")
        found.append(label)
    return tuple(label for label in known if label in found) if wanted else tuple(known)
