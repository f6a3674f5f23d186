"""Every table and figure of the papers: what it is, its command, what it needs, what is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmltune.errors import printable
from dmltune.reproduce import figures
from dmltune.reproduce.paper_tables import load_table, load_trainings, table_names
from dmltune.reproduce.study import FigureStudy, missing_data
from dmltune.reproduce.table_studies import FACTS


@dataclass(frozen=True)
class Listed:
    """A table or a figure. `runs_on` is the label of data at hand ("" for none); `missing`: label → why.

    `needs_no_data`: it reads no images. `stand_in`: the data at hand are not those of the print.
    """

    name: str
    kind: str
    source: str
    about: str
    command: str
    needs: tuple[str, ...]
    runs_on: str
    stand_in: bool
    needs_no_data: bool
    missing: dict[str, str]


def everything(data_root: Path | None) -> list[Listed]:
    """Return all of them: the tables, then the figures, each in the order of their sources."""
    listed = [*_tables(data_root), *_figures(data_root)]
    return sorted(listed, key=lambda each: (_paper(each.source), each.kind != "table"))


def _paper(source: str) -> int:
    """The thesis first."""
    return 0 if source.startswith("thesis") else 1


def _tables(data_root: Path | None) -> Iterator[Listed]:
    for name in table_names():
        table = load_table(name)
        reasons = {label: missing_data(data.name, data_root) for label, data in table.data.items()}
        missing = {label: reason for label, reason in reasons.items() if reason}
        at_hand = next((label for label, reason in reasons.items() if not reason), "")
        facts = load_trainings(table).protocol == FACTS
        command = f"dmltune reproduce {name}" + ("" if facts else " --run")
        if at_hand and missing and not facts:
            command += f" --data {at_hand}"
        yield Listed(
            name,
            "table",
            table.source,
            printable(table.about),
            command,
            tuple(dict.fromkeys(data.name for data in table.data.values())),
            at_hand,
            False,
            False,
            missing,
        )


def _figures(data_root: Path | None) -> Iterator[Listed]:
    for name in figures.names():
        study = figures.load(name)
        missing = {label: reason for label, data in study.data.items() if (reason := data.missing(data_root))}
        at_hand = next((label for label in study.data if label not in missing), "")
        yield Listed(
            name,
            "figure",
            study.source,
            study.about,
            _command(name, study, at_hand),
            tuple(study.data),
            at_hand,
            bool(at_hand) and study.data[at_hand].stand_in,
            not study.data,
            missing,
        )


def _command(name: str, study: FigureStudy, at_hand: str) -> str:
    return f"dmltune reproduce {name}" + (f" --data {at_hand}" if at_hand else "")
