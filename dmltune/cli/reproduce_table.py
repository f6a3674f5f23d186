"""A table of the papers: what this store has beside the print, and the trainings of `--run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.cli.output import Output, say
from dmltune.cli.reproduce import closing, listed, unknown
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.reproduce.table_studies import TableOutcome, TableSelection
    from dmltune.store import Store


def table(args: argparse.Namespace, out: Output) -> int:
    """Show what this store has beside the print; with --run train what is missing first."""
    from dmltune.experiment.files.places import is_path
    from dmltune.report.paper_table import paper_table
    from dmltune.reproduce.paper_tables import table_names
    from dmltune.reproduce.table_cells import document
    from dmltune.reproduce.table_studies import select_table
    from dmltune.resources import Locations
    from dmltune.store import Store
    from dmltune.tables.finished_checks import finished_checks

    if args.study not in table_names() and not is_path(args.study):
        raise unknown(args.study)
    if not args.run:
        refuse_what_needs_run(args)
        if args.dry_run:
            raise UserError("--dry-run is for trainings; add --run to plan them, or leave it out.")
    command, args = args, at_tiny_size(args) if args.tiny else args
    selection = select_table(args.study, args.name, listed(args.rows), listed(args.data))
    store = Store.at(args.store) if args.run and not args.dry_run else Store.to_read(args.store)
    if args.dry_run:
        from dmltune.cli.reproduce_plan import plan_table

        return plan_table(args, selection, Locations(store, args.data_root), out)
    outcome = train(args, selection, store) if args.run else None
    names = [study.name for study in selection.studies()]
    checks = list(finished_checks(store, names)) if names else []
    shown = document(selection, checks, args.data_root)
    if outcome is not None:
        shown |= {"refused": outcome.refused, "failed": outcome.failed, "stopped": outcome.stopped}
    out.document(shown)
    out.show(*paper_table(shown))
    if outcome is None:
        return 0
    for study, reason in outcome.refused.items():
        out.show(f"{study} was not run: {reason}")
    code = closing(command, out, outcome.failed, outcome.stopped)
    return code or (1 if outcome.refused else 0)


def at_tiny_size(args: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments of the smallest run: a model of each row on the stand-in, two steps."""
    from dmltune.reproduce.stand_in_tables import LABEL, TINY

    small = {"data": args.data or LABEL, "name": args.name or f"tiny-{Path(args.study).name}"}
    few = {"repeats": args.repeats or 1, "folds": args.folds or 1}
    return argparse.Namespace(**(vars(args) | small | few | {"overrides": [*TINY, *args.overrides]}))


def train(args: argparse.Namespace, selection: TableSelection, store: Store) -> TableOutcome:
    from dmltune.reproduce.table_studies import run_table
    from dmltune.resources import Locations, Resources

    return run_table(
        selection,
        Resources(args.workers or 1, args.concurrent, args.address, in_process=args.tiny),
        Locations(store, args.data_root),
        overrides=args.overrides,
        repeats=args.repeats,
        folds=args.folds,
        log=say,
    )


def refuse_what_needs_run(args: argparse.Namespace) -> None:
    for option in ("overrides", "tiny", "repeats", "folds", "workers", "concurrent", "address"):
        if given := getattr(args, option):
            shown = given[0] if option == "overrides" else f"--{option}"
            raise UserError(f"{shown} is for trainings; add --run to train, or leave it out.")
