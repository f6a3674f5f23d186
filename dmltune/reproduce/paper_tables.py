"""The papers' tables as data: `search_spaces/tables/NAME.yaml`, figures as they are printed.

A table has rows (what was trained) and, for each of its data sets, columns (what was measured). A row says
how it differs from the space of the data set, or why it cannot be trained here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.experiment.files import places
from dmltune.experiment.files.document import Document, read_document, read_value
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


class PaperColumn(Section):
    """What of a study is beside the printed figure: `single` and `ensemble` models on the test classes,
    `validation`, `steps` until the best weights, or the `categories` of the data.
    """

    score: Literal["single", "ensemble", "validation", "steps", "categories"]
    metric: str = ""


class DataSet(Section):
    name: str = Field(min_length=1)
    space: str = Field(min_length=1)
    overrides: Overrides = []
    columns: dict[str, PaperColumn] = {}


class Part(Section):
    about: str = ""
    overrides: Overrides = []


class PaperRow(Section):
    """`group` is the row it is compared with, `as` the row of the table `trainings` that it is."""

    part: str = ""
    group: str = ""
    as_: str = Field(default="", alias="as")
    overrides: Overrides = []
    on: dict[str, Overrides] = {}
    quoted: bool = False
    cannot: str = ""
    note: str = ""
    theirs: dict[str, list[Printed]]


class Table(Section):
    """`cannot`: why none of its rows can be trained; `trainings`: the table whose trainings it looks at;
    `protocol`: that of the print. Ours is the check's, which never looks at test classes while it trains.
    """

    about: str = ""
    source: str = Field(min_length=1)
    protocol: Literal["fair", "tuning", "conventional", "verification", "facts"]
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
        """Why this row cannot be trained here, or nothing."""
        chosen = self.rows[row]
        return QUOTED if chosen.quoted else chosen.cannot or self.cannot

    def baseline(self, row: str) -> str:
        return self.rows[row].group or row

    def words(self, row: str, data: str) -> list[str]:
        """The overrides of a cell: what all share first, what only it has last."""
        chosen = self.rows[row]
        part = self.parts[chosen.part].overrides if chosen.part else []
        own = [*self.data[data].overrides, *part, *chosen.overrides, *chosen.on.get(data, [])]
        return [*self.overrides, *own]


@dataclass(frozen=True)
class PaperCell:
    """One printed figure, as a fraction (or a count); `spread` is what stands behind ±."""

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
    """The table of this name or YAML file; every mistake in it is one UserError with file and line."""
    file = places.find_file(name, TABLES, "table")
    shown = places.shown(file)
    document = read_document(file, shown)
    try:
        return _checked(document)
    except Problem as problem:
        raise UserError(f"{document.place(shown, problem.paths)}: {problem}") from None


def cells(table: Table) -> Iterator[PaperCell]:
    """Every figure in the order of print."""
    for row, chosen in table.rows.items():
        for data, figures in chosen.theirs.items():
            for (column, what), figure in zip(table.columns_of(data).items(), figures, strict=True):
                value, spread = printed(figure, table.unit)
                yield PaperCell(row, data, column, what.score, what.metric, value, spread)


def digits(table: Table) -> int:
    """How many the print has behind the point, at most."""
    texts = [str(one) for row in table.rows.values() for listed in row.theirs.values() for one in listed]
    return max(len(end) for text in texts for end in (re.findall(r"\.(\d+)", text) or [""]))


def printed(figure: Printed, unit: Unit) -> tuple[float | None, float | None]:
    """`69.29 ±0.11` in percent → (0.6929, 0.0011); thousands become ones."""
    if figure is None:
        return None, None
    found = _PRINTED.fullmatch(figure) if isinstance(figure, str) else None
    texts = found.groups() if found else (str(figure),)
    by = {"percent": 0.01, "thousand": 1000.0, "count": 1.0}[unit]
    value, *spread = (round(float(text) * by, 6) for text in texts)
    return value, spread[0] if spread else None


def experiment_of(table: Table, row: str, data: str, changes: list[str] | None = None) -> Experiment:
    """What is trained for a cell, with the user's `changes` last."""
    words = [*table.words(row, data), *(changes or [])]
    return load_experiment(table.data[data].space, words).reference_experiment().fixed()


def values_of(words: list[str]) -> dict[str, Any]:
    """Dotted key → value of overrides: `batch={size: 112}` → batch.size."""
    found: dict[str, Any] = {}
    for word in words:
        key, _, raw = word.partition("=")
        value = read_value(raw)
        flat = {f"{key}.{inner}": item for inner, item in value.items()} if isinstance(value, dict) else {}
        for old in [old for old in found if old == key or old.startswith(f"{key}.")]:
            del found[old]
        found |= flat or {key: value}
    return found


def _checked(document: Document) -> Table:
    try:
        table = Table.model_validate(document.tree)
    except ValidationError as error:
        raise problem_of(error, Table) from None
    for data in table.data:
        if not table.columns_of(data):
            raise Problem(f"data {data} has no columns. Add columns to it or to the table.", ("data", data))
    for name, row in table.rows.items():
        _check_row(table, name, row)
    return table


def _check_row(table: Table, name: str, row: PaperRow) -> None:
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
        if len(figures) != (wanted := len(table.columns_of(data))):
            raise Problem(
                f"{name} must have a figure or null for each of the {wanted} columns of {data}; "
                f"got {len(figures)}.",
                (*path, "theirs", data),
            )
        for figure in figures:
            if isinstance(figure, str) and not _PRINTED.fullmatch(figure):
                raise Problem(
                    f"a figure must be a number, null, or like '69.29 ±0.11'; got {show(figure)}.",
                    (*path, "theirs", data),
                )
