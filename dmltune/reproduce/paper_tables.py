"""The papers' tables as data: `search_spaces/tables/NAME.yaml`, figures as printed.

A table has rows (what was trained) and, for each of its data sets, columns (what was measured). A row has the
overrides of the data set's space, or the reason why it cannot be trained here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.experiment.files import places
from dmltune.experiment.files.document import read_document
from dmltune.experiment.loading import parse_overrides
from dmltune.experiment.problems import Problem, near_or_list, problem_of, show
from dmltune.experiment.schema.sections import Section

TABLES = "search_spaces/tables"
QUOTED = "quoted from its own paper, which trained it"
_PRINTED = re.compile(r"(\d+(?:\.\d+)?)\s*±\s*(\d+(?:\.\d+)?)")
Unit = Literal["percent", "thousand", "count"]


def _is_override(text: str) -> str:
    if "=" not in text.strip("="):
        raise ValueError("an override is key=value, such as loss=triplet")
    return text


Overrides = list[Annotated[str, AfterValidator(_is_override)]]
Printed = float | int | str | None
Facts = dict[str, Any]  # dotted key → value as printed (printed_settings.py)


class PaperColumn(Section):
    """The measurement that is compared with the printed figure.

    `single` or `ensemble` models on the test classes, `validation`, `steps` until the best weights, or the
    `categories` of the data.
    """

    score: Literal["single", "ensemble", "validation", "steps", "categories"]
    metric: str = ""


class DataSet(Section):
    name: str = Field(min_length=1)
    space: str = Field(min_length=1)
    overrides: Overrides = []
    setting: Facts = {}
    columns: dict[str, PaperColumn] = {}


class Part(Section):
    about: str = ""
    overrides: Overrides = []
    setting: Facts = {}


class PaperRow(Section):
    """`group` is the row that it is compared with, `as` its row in the table `trainings`."""

    part: str = ""
    group: str = ""
    as_: str = Field(default="", alias="as")
    overrides: Overrides = []
    on: dict[str, Overrides] = {}
    setting: Facts = {}
    quoted: bool = False
    cannot: str = ""
    note: str = ""
    theirs: dict[str, list[Printed]]


class Table(Section):
    """`cannot`: why no row can be trained. `trainings`: the table whose trainings are shown.

    Under `protocol`, with `folds` × `repeats` models a row, the print was made and ours is trained; without
    them all folds and 3 repeats. `reported` says which of the repeats is printed, their mean or the best, and
    `plus_minus` that ± is the standard deviation of collections of one model a fold. `setting` and `methods`
    state what the paper says of its trainings, `unsaid` the keys about which it says nothing.
    """

    about: str = ""
    source: str = Field(min_length=1)
    protocol: Literal["fair", "tuning", "conventional", "verification", "facts"]
    folds: int | None = Field(default=None, ge=1)
    repeats: int | None = Field(default=None, ge=1)
    reported: Literal["mean", "best"] = "mean"
    plus_minus: Literal["", "collections"] = ""
    setting: Facts = {}
    methods: dict[str, Facts] = {}
    unsaid: list[str] = []
    unit: Unit = "percent"
    cannot: str = ""
    trainings: str = ""
    notes: list[str] = []
    overrides: Overrides = []
    data: dict[str, DataSet]
    columns: dict[str, PaperColumn] = {}
    parts: dict[str, Part] = {}
    rows: dict[str, PaperRow]

    def columns_of(self, data: str) -> Mapping[str, PaperColumn]:
        return self.data[data].columns or self.columns

    def why_not(self, row: str) -> str:
        """Return why this row cannot be trained here, or nothing."""
        chosen = self.rows[row]
        return QUOTED if chosen.quoted else chosen.cannot or self.cannot

    def baseline(self, row: str) -> str:
        return self.rows[row].group or row

    def overrides_of(self, row: str, data: str) -> list[str]:
        """Return the overrides of a cell, from those of all cells to its own."""
        chosen = self.rows[row]
        part = self.parts[chosen.part].overrides if chosen.part else []
        own = [*self.data[data].overrides, *part, *chosen.overrides, *chosen.on.get(data, [])]
        return [*self.overrides, *own]


@dataclass(frozen=True)
class PaperCell:
    """One printed figure, as a fraction or a count; `theirs_spread` is the number after ±."""

    row: str
    data: str
    column: str
    score: str
    metric: str
    theirs: float | None
    theirs_spread: float | None


def table_names() -> list[str]:
    return sorted(places.named_files(TABLES))


def load_table(name: str | File) -> Table:
    """Read a table by name or path; a mistake in it is a UserError with file and line."""
    table, place = _read(name)
    source = load_trainings(table)
    if source.trainings:
        raise UserError(f"{place(('trainings',))}: table {table.trainings} has no trainings of its own.")
    for label, row in table.rows.items():
        if (trained := row.as_ or label) not in source.rows:
            known = near_or_list(trained, source.rows)
            raise UserError(f"{place(('rows', label, 'as'))}: no row {show(trained)}{known}")
    return table


def load_trainings(table: Table) -> Table:
    """Return the table whose trainings are shown, mostly the table itself."""
    return _read(table.trainings)[0] if table.trainings else table


def cells(table: Table) -> Iterator[PaperCell]:
    """Yield every figure in the order of print."""
    for row, chosen in table.rows.items():
        for data, figures in chosen.theirs.items():
            for (column, what), figure in zip(table.columns_of(data).items(), figures, strict=True):
                value, spread = printed(figure, table.unit)
                yield PaperCell(row, data, column, what.score, what.metric, value, spread)


def digits(table: Table) -> int:
    """Return the largest number of decimals in print; 1 for a table of which nothing is printed."""
    figures = [figure for row in table.rows.values() for listed in row.theirs.values() for figure in listed]
    if all(figure is None for figure in figures):
        return 1
    return max((len(end) for figure in figures for end in re.findall(r"\.(\d+)", str(figure))), default=0)


def printed(figure: Printed, unit: Unit) -> tuple[float | None, float | None]:
    """Return value and spread: `69.29 ±0.11` in percent → (0.6929, 0.0011)."""
    if figure is None:
        return None, None
    match = _PRINTED.fullmatch(figure) if isinstance(figure, str) else None
    texts = match.groups() if match else (str(figure),)
    unit_size = {"percent": 0.01, "thousand": 1000.0, "count": 1.0}[unit]
    value, *spread = (round(float(text) * unit_size, 6) for text in texts)
    return value, spread[0] if spread else None


def experiment_of(table: Table, row: str, data: str, changes: list[str] | None = None) -> Experiment:
    """Return the training of a cell, with the user's `changes` last."""
    overrides = [*table.overrides_of(row, data), *(changes or [])]
    return load_experiment(table.data[data].space, overrides).reference_experiment().fixed()


def values_of(overrides: list[str]) -> dict[str, Any]:
    """Return dotted key → value of overrides: `batch={size: 112}` → batch.size."""
    values: dict[str, Any] = {}
    for override in overrides:
        for key, value in parse_overrides([override]).items():
            values = {old: item for old, item in values.items() if not f"{old}.".startswith(f"{key}.")}
            if isinstance(value, dict) and value:
                values |= {f"{key}.{inner}": item for inner, item in value.items()}
            else:
                values[key] = value
    return values


def _read(name: str | File) -> tuple[Table, Callable[[tuple[str, ...]], str]]:
    """Return the table, and a function from the path of a key to its file and line."""
    file = places.find_file(name, TABLES, "table")
    shown = places.shown(file)
    document = read_document(file, shown)
    try:
        try:
            table = Table.model_validate(document.tree)
        except ValidationError as error:
            raise problem_of(error, Table) from None
        for key in ("data", "rows"):
            if not getattr(table, key):
                raise Problem(f"a table needs {key}; got none. Add at least one.", (key,))
        for data in table.data:
            if not table.columns_of(data):
                raise Problem(
                    f"data {data} has no columns. Add columns to it or to the table.", ("data", data)
                )
        for label, row in table.rows.items():
            _validate_row(table, label, row)
    except Problem as problem:
        raise UserError(f"{document.place(shown, problem.paths)}: {problem}") from None
    return table, lambda path: document.place(shown, [path])


def _validate_row(table: Table, name: str, row: PaperRow) -> None:
    path = ("rows", name)
    for key, value, known in (
        ("part", row.part, list(table.parts)),
        ("group", row.group, [other for other in table.rows if not table.rows[other].group]),
    ):
        if value and value not in known:
            raise Problem(f"no {key} {show(value)}{near_or_list(value, known)}", (*path, key))
    for key in ("theirs", "on"):
        for data in getattr(row, key):
            if data not in table.data:
                hint = near_or_list(data, table.data)
                raise Problem(f"no data {show(data)} in this table{hint}", (*path, key, data))
    for data, figures in row.theirs.items():
        if len(figures) != (columns := len(table.columns_of(data))):
            raise Problem(
                f"{name} must have a figure or null for each of the {columns} columns of {data}; "
                f"got {len(figures)}.",
                (*path, "theirs", data),
            )
        for figure in figures:
            if isinstance(figure, str) and not _PRINTED.fullmatch(figure):
                raise Problem(
                    f"a figure must be a number, null, or like '69.29 ±0.11'; got {show(figure)}.",
                    (*path, "theirs", data),
                )
