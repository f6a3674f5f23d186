"""Every table and figure of the papers: what it is, its command, what it needs, what is at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dmltune.errors import printable
from dmltune.reproduce import figures
from dmltune.reproduce.paper_tables import Table, experiment_of, load_table, load_trainings, table_names
from dmltune.reproduce.stand_in_tables import LABEL as STAND_IN
from dmltune.reproduce.study import missing_data, missing_weights
from dmltune.reproduce.table_studies import FACTS


@dataclass(frozen=True)
class Listed:
    """A table or a figure, with the command that runs it on data at hand.

    needs, at_hand: labels of its data; missing: label → why it is not at hand
    needs_no_data: it reads no images
    stand_in: no data of the print are at hand
    note: why no row of a table can be trained, and what to do instead
    """

    name: str
    kind: str
    source: str
    about: str
    command: str
    needs: tuple[str, ...]
    at_hand: tuple[str, ...]
    stand_in: bool
    needs_no_data: bool
    missing: dict[str, str]
    note: str = ""


def everything(data_root: Path | None) -> list[Listed]:
    """Return all of them: the tables, then the figures, each in the order of their sources."""
    listed = [*_tables(data_root), *_figures(data_root)]
    return sorted(listed, key=lambda each: _order(each.source, each.kind))


def _order(source: str, kind: str) -> tuple[bool, bool, str, list[int]]:
    """Return a sort key: the thesis first, tables before figures, then by number: 5.2 before 5.10."""
    paper = source.partition(",")[0]
    return paper != "thesis", kind != "table", paper, [int(number) for number in re.findall(r"\d+", source)]


def _tables(data_root: Path | None) -> Iterator[Listed]:
    for name in table_names():
        table = load_table(name)
        trainable = [
            row for row in table.rows if not load_trainings(table).why_not(table.rows[row].as_ or row)
        ]
        reasons = {label: _missing(table, label, trainable, data_root) for label in table.data}
        at_hand = tuple(label for label, reason in reasons.items() if not reason)
        facts = load_trainings(table).protocol == FACTS
        trains = bool(trainable) and not facts
        options = " --run" if trains else ""
        if trains and not at_hand:
            options += f" --data {STAND_IN}"
        elif trains and len(at_hand) < len(reasons):
            options += f" --data {','.join(at_hand)}"
        yield Listed(
            name=name,
            kind="table",
            source=table.source,
            about=printable(table.about),
            command=f"dmltune reproduce {name}{options}",
            needs=tuple(dict.fromkeys(data.name for data in table.data.values())),
            at_hand=at_hand or ((STAND_IN,) if trains else ()),
            stand_in=trains and not at_hand,
            needs_no_data=False,
            missing={label: reason for label, reason in reasons.items() if reason},
            note=table.cannot,
        )


def _missing(table: Table, data: str, rows: Sequence[str], data_root: Path | None) -> str:
    """Return why the first row that can be trained cannot begin on this machine, or nothing."""
    reason = missing_data(table.data[data].name, data_root)
    source = load_trainings(table)
    row = next((table.rows[row].as_ or row for row in rows if data in table.rows[row].theirs), None)
    if reason or row is None or data not in source.data:
        return reason
    return missing_weights(experiment_of(source, row, data), data_root)


def _figures(data_root: Path | None) -> Iterator[Listed]:
    for name in figures.names():
        study = figures.load(name)
        reasons = {label: data.missing(data_root) for label, data in study.data.items()}
        at_hand = tuple(label for label, reason in reasons.items() if not reason)
        yield Listed(
            name=name,
            kind="figure",
            source=study.source,
            about=study.about,
            command=f"dmltune reproduce {name}" + (f" --data {at_hand[0]}" if at_hand else ""),
            needs=tuple(study.data),
            at_hand=at_hand,
            stand_in=bool(at_hand) and all(study.data[label].stand_in for label in at_hand),
            needs_no_data=not study.data,
            missing={label: reason for label, reason in reasons.items() if reason},
        )
