"""`dmltune reproduce`: a study or a table of the papers, run here and shown beside the printed figures."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dmltune.cli.boundary import INTERRUPTED
from dmltune.cli.output import Output, new_table, say
from dmltune.cli.parser import (
    Parser,
    add_address,
    add_format,
    add_name,
    add_places,
    command_line,
    override,
)
from dmltune.errors import UserError, readable

if TYPE_CHECKING:
    from rich.table import Table

    from dmltune.reproduce.collage_table import CollageResult
    from dmltune.reproduce.synthetic_run import SyntheticStudy
    from dmltune.reproduce.table_runs import TableOutcome
    from dmltune.reproduce.table_studies import TableSelection
    from dmltune.store import Store

SUMMARY = "a study of the papers run here, or a table of theirs with ours beside it"
EXAMPLES = """\
  dmltune reproduce synthetic                       a minute, one core
  dmltune reproduce collage                         48 trainings, two at a time
  dmltune reproduce collage --poolings gap,gsp --seeds 1 --name quick
  dmltune reproduce 3.1                             the paper's figures beside those of this store
  dmltune reproduce 3.1 --run --rows C2+CCP-L --data CUB --data-root ~/data
  dmltune reproduce 3.1 --run --data CUB --name quick data.size=128 max_steps=100 --repeats 1
"""
STUDIES = ("synthetic", "collage")
TABLES = (
    *("3.1", "3.2", "3.3", "5.1", "5.2", "5.3", "5.4", "sft1", "sft2", "sft3", "sft4", "sft5", "sft6"),
    *("ms1", "ms2", "ms3"),
)
OF_STUDIES = {"seeds": "--repeats", "steps": "max_steps=N", "poolings": "--rows"}
OF_TABLES = ("run", "rows", "data", "repeats", "folds", "workers")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "study",
        metavar="STUDY",
        help="synthetic: tokens under gap and gsp (thesis 5.3.1); collage: fifteen poolings (5.3.2); "
        f"or a table: {', '.join(TABLES)}, or a YAML file like those",
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes by dotted key: of the space `collage`, such as data.name=cifar_collage, or of every "
        "training of a table",
    )
    parser.add_number("--seeds", "studies: how many seeds (default: 3)")
    parser.add_number("--steps", "studies: steps of every training")
    parser.add_argument(
        "--poolings", metavar="A,B", help="collage: only these, gsp+zero_shot among them (default: all)"
    )
    parser.add_flag("--run", "tables: train what is chosen and not trained yet")
    parser.add_argument("--rows", metavar="A,B", help="tables: only these; with --run their baselines too")
    parser.add_argument("--data", metavar="A,B", help="tables: only these data sets")
    parser.add_number("--repeats", "tables: models of every fold (default: 3)")
    parser.add_number("--folds", "tables: only the first N folds (default: all, 4)")
    add_name(parser, "the study's")
    parser.add_number("--workers", "tables: processes of every training (default: 1)")
    parser.add_number("--concurrent", "trainings at a time (default: cores)")
    add_address(parser)
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    for option in OF_TABLES if args.study in STUDIES else OF_STUDIES:
        if getattr(args, option):
            other = f"tables; the study {args.study} has none, leave it out."
            if args.study not in STUDIES:
                other = f"studies; for table {args.study} use {OF_STUDIES[option]}."
            raise UserError(f"--{option} is for {other}")
    if args.study not in STUDIES:
        return table(args, out)
    args.seeds = args.seeds or 3
    if args.study == "synthetic":
        return synthetic(args, out)
    return collage(args, out)


def table(args: argparse.Namespace, out: Output) -> int:
    """Show what this store has beside the print; with --run train what is missing first."""
    from dmltune.experiment.files.places import is_path
    from dmltune.experiment.problems import near_or_list
    from dmltune.report.paper_table import paper_table
    from dmltune.reproduce.paper_tables import table_names
    from dmltune.reproduce.table_cells import document
    from dmltune.reproduce.table_studies import select_table
    from dmltune.store import Store
    from dmltune.tables.finished_checks import finished_checks

    if args.study not in (known := table_names()) and not is_path(args.study):
        hint = near_or_list(args.study, [*STUDIES, *known], "there are")
        raise UserError(f"no study or table {readable(args.study)}{hint}")
    if not args.run:
        refuse_what_needs_run(args)
    selection = select_table(args.study, args.name, listed(args.rows), listed(args.data))
    store = Store.at(args.store)
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
    code = closing(args, out, outcome.failed, outcome.stopped)
    return code or (1 if outcome.refused else 0)


def train(args: argparse.Namespace, selection: TableSelection, store: Store) -> TableOutcome:
    from dmltune.reproduce.table_runs import run_table
    from dmltune.resources import Locations, Resources

    return run_table(
        selection,
        Resources(args.workers or 1, args.concurrent, args.address),
        Locations(store, args.data_root),
        overrides=args.overrides,
        repeats=args.repeats,
        folds=args.folds,
        log=say,
    )


def closing(args: argparse.Namespace, out: Output, failed: Mapping[str, str], stopped: bool) -> int:
    """Show which trainings failed and how a stopped run continues; return the exit code."""
    for member, reason in failed.items():
        out.show(f"{member} failed: {reason}")
    if stopped:
        out.show("stopped before its end. It continues with", f"  {command_line(args)}")
        return INTERRUPTED
    return 1 if failed else 0


def refuse_what_needs_run(args: argparse.Namespace) -> None:
    for option in ("overrides", "repeats", "folds", "workers", "concurrent", "address"):
        if given := getattr(args, option):
            shown = given[0] if option == "overrides" else f"--{option}"
            raise UserError(f"{shown} is for trainings; add --run to train, or leave it out.")


def listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()] if names else []


def synthetic(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.summary import nearby
    from dmltune.reproduce.synthetic_run import run_synthetic
    from dmltune.store import Store

    for option in ("overrides", "poolings", "concurrent", "address", "data_root"):
        if getattr(args, option):
            given = args.overrides[0] if option == "overrides" else f"--{option.replace('_', '-')}"
            raise UserError(f"the synthetic study has no {given}; see dmltune reproduce --help")
    study = run_synthetic(
        name=args.name or "synthetic", seeds=args.seeds, steps=args.steps, store=Store.at(args.store), log=say
    )
    out.document(study)
    out.show("", synthetic_table(study), "", *verdict(study), "", f"picture: {nearby(study.picture)}")
    return 0


def collage(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.summary import nearby
    from dmltune.reproduce.collage import METHODS, run
    from dmltune.store import Store

    study = run(
        name=args.name or "collage",
        methods=args.poolings.split(",") if args.poolings else tuple(METHODS),
        seeds=args.seeds,
        overrides=args.overrides,
        steps=args.steps,
        concurrent=args.concurrent,
        store=Store.at(args.store),
        data_root=args.data_root,
        address=args.address,
        log=say,
    )
    out.document(study)
    if study.rows:
        out.show("", collage_table(study), "")
        out.show("Test classes, none of them used in training; differences to gap in points, seed by seed.")
        out.show(f"Neighbours by raw pixels: {100 * study.raw_pixels:.1f} %.")
        out.show(f"table and picture: {nearby(study.folder)}/poolings.csv, poolings.png")
    return closing(args, out, study.failed, study.stopped)


def synthetic_table(study: SyntheticStudy) -> Table:
    from dmltune.report.formatting import percent

    grid = new_table("pooling", "MAP@R %", "±", "in foreign hulls %", "pairs that overlap", "steps")
    for row in study.rows:
        shares = (percent(row.map_at_r), percent(row.std), percent(row.points_in_foreign_hulls))
        counts = (" ".join(map(str, row.overlapping_hulls)), " ".join(map(str, row.steps)))
        grid.add_row(row.pooling, *shares, *counts)
    return grid


def verdict(study: SyntheticStudy) -> list[str]:
    lines = [f"GSP − GAP: {100 * study.difference:+.1f} points (the thesis: about 70)."]
    apart = "do not overlap" if not study.drawn_overlapping_hulls else "overlap"
    return [*lines, f"In the picture (seed {study.drawn_seed}) the class hulls of GSP {apart}."]


def collage_table(study: CollageResult) -> Table:
    from dmltune.report.formatting import percent

    grid = new_table("pooling", "seeds", "MAP@R %", "±", "to gap", "P@1 %", "validation %")
    for row in study.rows:
        to_gap = "" if row.to_gap is None or row.method == "gap" else percent(row.to_gap, signed=True)
        spread = percent(row.std) if row.seeds > 1 else "–"
        scores = (percent(row.map_at_r), spread, to_gap, percent(row.precision_at_1), percent(row.validation))
        grid.add_row(row.method, str(row.seeds), *scores)
    return grid
