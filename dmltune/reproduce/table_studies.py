"""The part of a paper's table that is shown or trained, its checks, and their training.

A baseline and the rows compared with it are one check on one data set, such as `table-3.1-CUB-C2`: all of
them have one protocol and one set of seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dmltune.check.configurations import Configuration
from dmltune.check.plan import CheckRequest
from dmltune.data import catalog
from dmltune.errors import UserError
from dmltune.experiment.files import places
from dmltune.experiment.problems import near_or_list, show
from dmltune.reproduce import stand_in_tables
from dmltune.reproduce.paper_tables import Table, experiment_of, load_table, load_trainings, values_of
from dmltune.reproduce.printed_settings import deviations
from dmltune.resources import Locations, Resources

FACTS = "facts"
CLUSTERING = ("nmi", "f1")


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


@dataclass
class TableOutcome:
    """`refused`: study → why it could not begin; `failed`: member → why."""

    done: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


def select_table(
    table_name: str, name: str | None = None, rows: Sequence[str] = (), data: Sequence[str] = ()
) -> TableSelection:
    """Return the table of this name, or these rows and data sets of it."""
    table, source = load_table(table_name), None
    known = {*table.data, *(chosen.name for chosen in table.data.values())}
    if list(data) == [stand_in_tables.LABEL] and stand_in_tables.LABEL not in known:
        source = stand_in_tables.on_stand_in(load_trainings(table))
        table = stand_in_tables.on_stand_in(table)
    stem = Path(table_name).stem if places.is_path(table_name) else table_name
    return TableSelection(
        table_name,
        name or f"table-{table.trainings or stem}",
        table,
        source or load_trainings(table),
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
        if catalog.needs_files(name := table.data[data].name):
            catalog.files(name, "train", data_root)
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


def run_table(
    selection: TableSelection,
    resources: Resources,
    locations: Locations,
    *,
    overrides: Sequence[str] = (),
    repeats: int | None = None,
    folds: int | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> TableOutcome:
    """Train what the selected cells need and is not done yet.

    A study without its data set or weights is refused; the others run.
    """
    from dmltune.check.plan import prepare_check
    from dmltune.check.session import run_check

    outcome, table = TableOutcome(), selection.source
    planned = [(study, configurations(selection, study, overrides)) for study in selection.studies()]
    if not planned:
        raise UserError(f"nothing of table {selection.name} can be trained here; without --run it says why")
    absent = {data: missing(selection.table, data, locations.data_root) for data in selection.data}
    for study, chosen in planned:
        if reason := absent[study.data]:
            outcome.refused[study.name] = reason
            continue
        log(f"{study.name}: {', '.join(study.rows)} on {table.data[study.data].name}")
        for row, own in zip(study.rows, chosen, strict=True):
            if lines := deviations(table, row, study.data, own.experiment):
                log(f"{row} is not as printed: {'; '.join(lines)}")
        request = request_of(selection, study, chosen, repeats, folds)
        try:
            result = run_check(prepare_check(request, locations), resources, locations, log)
        except UserError as error:
            outcome.refused[study.name] = str(error)
            continue
        outcome.failed |= result.document.failed
        if result.stopped:
            outcome.stopped = True
            break
        outcome.done.append(study.name)
    if outcome.refused and not (outcome.done or outcome.failed or outcome.stopped):
        reasons = list(dict.fromkeys(outcome.refused.values()))
        more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
        raise UserError(f"nothing could be trained: {reasons[0]}{more}")
    return outcome


def request_of(
    selection: TableSelection,
    study: TableCheck,
    chosen: Sequence[Configuration],
    repeats: int | None = None,
    folds: int | None = None,
) -> CheckRequest:
    """Return the check of a study, under the table's protocol and with its folds and repeats.

    Protocol fair gives way to a smaller one where there are too few classes.
    """
    table = selection.source
    columns = selection.table.columns_of(study.data).values()
    return CheckRequest(
        name=study.name,
        configurations=tuple(chosen),
        baseline=key_of(study.baseline),
        space_name=table.data[study.data].space,
        study=study.name,
        why=f"table {selection.name}, {study.data}: {', '.join(study.rows)}",
        kind="reproduce",
        repeats=repeats or table.repeats,
        folds=folds or table.folds,
        protocol="" if table.protocol == "fair" else table.protocol,
        own_patience=True,
        clustering=any(column.metric in CLUSTERING for column in columns),
    )


def configurations(
    selection: TableSelection, study: TableCheck, overrides: Sequence[str] = ()
) -> list[Configuration]:
    """Return the rows of a study; `values` are what the row and the user set."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key in ("fold", "seed", "objective", "objective.protocol"):
            raise UserError(f"{key} is set by the check. Leave it out, and use --folds and --repeats.")
    return [
        Configuration(
            key_of(row),
            (row,),
            experiment_of(selection.source, row, study.data, list(overrides)),
            values_of([*selection.source.overrides_of(row, study.data), *overrides]),
        )
        for row in study.rows
    ]
