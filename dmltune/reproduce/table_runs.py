"""Train the papers' tables: each group of rows on each data set is one check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dmltune.errors import UserError
from dmltune.reproduce.paper_tables import experiment_of, values_of
from dmltune.reproduce.table_studies import TableCheck, TableSelection, key_of, missing
from dmltune.resources import Locations, Resources

if TYPE_CHECKING:
    from dmltune.check.configurations import Configuration


@dataclass
class TableOutcome:
    """`refused`: study → why it could not begin; `failed`: member → why."""

    done: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


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
    from dmltune.check.request import CheckRequest
    from dmltune.check.session import check_configurations

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
        request = CheckRequest(
            name=study.name,
            configurations=tuple(chosen),
            baseline=key_of(study.baseline),
            space_name=table.data[study.data].space,
            why=f"table {selection.name}, {study.data}: {', '.join(study.rows)}",
            kind="reproduce",
            repeats=repeats,
            folds=folds,
        )
        try:
            result = check_configurations(request, resources, locations, log)
        except UserError as error:
            outcome.refused[study.name] = str(error)
            continue
        outcome.failed |= result.document.failed
        if result.stopped:
            outcome.stopped = True
            break
        outcome.done.append(study.name)
    if outcome.refused and not (outcome.done or outcome.failed or outcome.stopped):
        raise UserError(_all_refused(outcome.refused.values()))
    return outcome


def configurations(
    selection: TableSelection, study: TableCheck, overrides: Sequence[str] = ()
) -> list[Configuration]:
    """Return the rows of a study; `values` are what the row and the user set."""
    from dmltune.check.configurations import Configuration

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


def _all_refused(refused: Iterable[str]) -> str:
    """Return one line for all reasons; mostly they are the same."""
    reasons = list(dict.fromkeys(refused))
    more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
    return f"nothing could be trained: {reasons[0]}{more}"
