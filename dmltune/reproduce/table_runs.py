"""The papers' tables, trained: each group of rows on each data set as one check, resumable by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.errors import UserError
from dmltune.reproduce.paper_tables import experiment_of, values_of
from dmltune.reproduce.table_studies import Beside, TableCheck, key_of, missing
from dmltune.store import Store, validated_name

if TYPE_CHECKING:
    from dmltune.check.configurations import Configuration


@dataclass(frozen=True)
class Layout:
    """Where and how wide trainings run."""

    workers: int = 1
    concurrent: int | None = None
    address: str | None = None


@dataclass
class TableOutcome:
    """`refused`: study → why it could not begin; `failed`: member → why."""

    done: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


def run_table(
    asked: Beside,
    *,
    overrides: Sequence[str] = (),
    repeats: int | None = None,
    folds: int | None = None,
    layout: Layout | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> TableOutcome:
    """Train what the chosen cells need and is not done yet. A data set that is not there, or weights that
    are missing, leave their studies out; the others run.
    """
    from dmltune.check.session import check_configurations

    store, layout, outcome = store or Store.at(), layout or Layout(), TableOutcome()
    planned = {study: configurations(asked, study, overrides) for study in asked.studies()}
    if not planned:
        raise UserError(f"nothing of table {asked.name} can be trained here; without --run it says why")
    away = {data: missing(asked.table, data, data_root) for data in asked.data}
    for study, listed in planned.items():
        validated_name(study.name)
        if reason := away[study.data]:
            outcome.refused[study.name] = reason
            continue
        say(f"{study.name}: {', '.join(study.rows)} on {asked.source.data[study.data].name}")
        try:
            result = check_configurations(
                study.name,
                listed,
                key_of(study.baseline),
                space_name=asked.source.data[study.data].space,
                repeats=repeats,
                folds=folds,
                store=store,
                data_root=data_root,
                workers=layout.workers,
                concurrent=layout.concurrent,
                address=layout.address,
                say=say,
                why=f"table {asked.name}, {study.data}: {', '.join(study.rows)}",
                kind="reproduce",
            )
        except UserError as error:
            outcome.refused[study.name] = str(error)
            continue
        outcome.failed |= dict(result.to_dict()["failed"])
        if result.stopped:
            outcome.stopped = True
            break
        outcome.done.append(study.name)
    if outcome.refused and not (outcome.done or outcome.failed or outcome.stopped):
        raise UserError(_all_refused(outcome.refused))
    return outcome


def configurations(asked: Beside, study: TableCheck, overrides: Sequence[str] = ()) -> list[Configuration]:
    """The rows of a study as fixed experiments; their `values` are what the row and the user set."""
    from dmltune.check.configurations import Configuration

    _refuse_what_is_the_checks(overrides)
    return [
        Configuration(
            key_of(row),
            (row,),
            experiment_of(asked.source, row, study.data, list(overrides)),
            values_of([*asked.source.words(row, study.data), *overrides]),
        )
        for row in study.rows
    ]


def _refuse_what_is_the_checks(overrides: Sequence[str]) -> None:
    for word in overrides:
        key = word.partition("=")[0].strip()
        if key in ("fold", "seed", "objective", "objective.protocol"):
            raise UserError(f"{key} belongs to the check itself; leave it out, see --folds and --repeats.")


def _all_refused(refused: Mapping[str, str]) -> str:
    """One line for all: mostly one data set is missing for every one of them."""
    reasons = list(dict.fromkeys(refused.values()))
    more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
    return f"nothing could be trained: {reasons[0]}{more}"
