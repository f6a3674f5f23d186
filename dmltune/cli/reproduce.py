"""`dmltune reproduce`: a study or a table of the papers, run here and shown beside theirs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_places, at_least, override
from dmltune.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from dmltune.reproduce.collage import CollageResult
    from dmltune.reproduce.synthetic_run import SyntheticStudy
    from dmltune.reproduce.table_runs import TableOutcome
    from dmltune.reproduce.table_studies import Beside
    from dmltune.store import Store

SUMMARY = "a study of the papers run here, or a table of theirs with ours beside it"
EXAMPLES = """\
  dmltune reproduce synthetic                       a minute, one core
  dmltune reproduce collage                         48 trainings, two at a time
  dmltune reproduce collage --poolings gap,gsp --seeds 1 --name quick
  dmltune reproduce 3.1                             the paper's figures, and ours where something was run
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
        help="changes by dotted key: to the space `collage`, such as data.name=cifar_collage, or to every "
        "training of a table",
    )
    parser.add_argument("--seeds", type=at_least(1), metavar="N", help="studies: how many (default: 3)")
    parser.add_argument(
        "--steps", type=at_least(1), metavar="N", help="studies: of every training (default: the study's)"
    )
    parser.add_argument(
        "--poolings", metavar="A,B", help="collage: only these, gsp+zero_shot among them (default: all)"
    )
    parser.add_argument("--run", action="store_true", help="tables: train what is chosen and not there yet")
    parser.add_argument(
        "--rows", metavar="A,B", help="tables: only these; with --run their baselines come too"
    )
    parser.add_argument("--data", metavar="A,B", help="tables: only these data sets")
    parser.add_argument(
        "--repeats", type=at_least(1), metavar="N", help="tables: models of every fold (default: 3)"
    )
    parser.add_argument(
        "--folds", type=at_least(1), metavar="N", help="tables: only the first N folds (default: all, 4)"
    )
    parser.add_argument("--name", help="of its runs (default: the study's); an existing one is continued")
    parser.add_argument(
        "--workers", type=at_least(1), metavar="N", help="tables: processes of every training (default: 1)"
    )
    parser.add_argument(
        "--concurrent", type=at_least(1), metavar="N", help="trainings at a time (default: cores)"
    )
    parser.add_argument("--address", help="a Ray cluster to run on (default: this machine)")
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    if args.study not in STUDIES:
        return table(args, out)
    for option in OF_TABLES:
        if getattr(args, option):
            raise UserError(f"--{option} is for tables; the study {args.study} has none, leave it out.")
    args.seeds = args.seeds or 3
    return synthetic(args, out) if args.study == "synthetic" else collage(args, out)


def table(args: argparse.Namespace, out: Output) -> int:
    """Without --run nothing is trained or opened: what this store has is shown beside the print."""
    for option, instead in OF_STUDIES.items():
        if getattr(args, option):
            raise UserError(f"--{option} is for studies; for table {args.study} use {instead}.")
    from dmltune.cli import INTERRUPTED
    from dmltune.experiment.files.places import is_path
    from dmltune.experiment.problems import near_or_list
    from dmltune.reproduce.paper_tables import table_names
    from dmltune.reproduce.table_cells import document
    from dmltune.reproduce.table_studies import beside
    from dmltune.store import Store
    from dmltune.tables.finished_checks import finished_checks

    if args.study not in (known := table_names()) and not is_path(args.study):
        hint = near_or_list(args.study, [*STUDIES, *known], "there are")
        raise UserError(f"no study or table '{args.study}'{hint}")
    if not args.run:
        refuse_what_needs_run(args)
    asked = beside(args.study, args.name, listed(args.rows), listed(args.data))
    store = Store.at(args.store)
    outcome = train(args, asked, store) if args.run else None
    names = [study.name for study in asked.studies()]
    found = document(asked, list(finished_checks(store, names)) if names else [], args.data_root)
    if outcome is not None:
        found |= {"refused": outcome.refused, "failed": outcome.failed, "stopped": outcome.stopped}
    out.document(found)
    from dmltune.report.paper_table import paper_table

    out.show(*paper_table(found))
    if outcome is None:
        return 0
    for study, reason in outcome.refused.items():
        out.show(f"{study} was not run: {reason}")
    for member, reason in outcome.failed.items():
        out.show(f"{member} failed: {reason}")
    if outcome.stopped:
        out.show("stopped before its end; the same command continues")
        return INTERRUPTED
    return 1 if outcome.refused or outcome.failed else 0


def train(args: argparse.Namespace, asked: Beside, store: Store) -> TableOutcome:
    from dmltune.reproduce.table_runs import Layout, run_table

    return run_table(
        asked,
        overrides=args.overrides,
        repeats=args.repeats,
        folds=args.folds,
        layout=Layout(args.workers or 1, args.concurrent, args.address),
        store=store,
        data_root=args.data_root,
        say=say,
    )


def refuse_what_needs_run(args: argparse.Namespace) -> None:
    for option in ("overrides", "repeats", "folds", "workers", "concurrent", "address"):
        if given := getattr(args, option):
            word = given[0] if option == "overrides" else f"--{option}"
            raise UserError(f"{word} is for trainings; add --run to train, or leave it out.")


def listed(words: str | None) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()] if words else []


def synthetic(args: argparse.Namespace, out: Output) -> int:
    for option in ("overrides", "poolings", "concurrent", "address", "data_root"):
        if getattr(args, option):
            given = args.overrides[0] if option == "overrides" else f"--{option.replace('_', '-')}"
            raise UserError(f"the synthetic study has no {given}; see dmltune reproduce --help")
    from dmltune.reproduce.synthetic_run import run_synthetic
    from dmltune.store import Store

    study = run_synthetic(
        name=args.name or "synthetic", seeds=args.seeds, steps=args.steps, store=Store.at(args.store), say=say
    )
    out.document(study)
    out.show("", synthetic_table(study), "", *verdict(study), "", f"picture: {nearby(study.picture)}")
    return 0


def collage(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli import INTERRUPTED
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
        say=say,
    )
    out.document(study)
    if study.rows:
        out.show("", collage_table(study), "")
        out.show("Test classes, none of them seen in training; differences to gap in points, seed by seed.")
        out.show(f"Neighbours by raw pixels: {100 * study.raw_pixels:.1f} %.")
        out.show(f"table and picture: {nearby(study.folder)}/poolings.csv, poolings.png")
    for member, reason in study.failed.items():
        out.show(f"{member} failed: {reason}")
    if study.stopped:
        out.show("stopped before its end; the same command continues")
        return INTERRUPTED
    return 1 if study.failed else 0


def synthetic_table(study: SyntheticStudy) -> Table:
    grid = new_table("pooling", "MAP@R %", "±", "in foreign hulls %", "pairs that overlap", "steps")
    for row in study.rows:
        grid.add_row(
            row.pooling,
            percent(row.map_at_r),
            percent(row.std),
            percent(row.points_in_foreign_hulls),
            " ".join(map(str, row.overlapping_hulls)),
            " ".join(map(str, row.steps)),
        )
    return grid


def verdict(study: SyntheticStudy) -> list[str]:
    lines = [f"GSP − GAP: {100 * study.difference:+.1f} points (the thesis: about 70)."]
    apart = "do not overlap" if not study.drawn_overlapping_hulls else "overlap"
    return [*lines, f"In the picture (seed {study.drawn_seed}) the class hulls of GSP {apart}."]


def collage_table(study: CollageResult) -> Table:
    grid = new_table("pooling", "seeds", "MAP@R %", "±", "to gap", "P@1 %", "validation %")
    for row in study.rows:
        to_gap = "" if row.to_gap is None or row.method == "gap" else f"{100 * row.to_gap:+.1f}"
        spread = percent(row.std) if row.seeds > 1 else "–"
        scores = (percent(row.map_at_r), spread, to_gap, percent(row.precision_at_1), percent(row.validation))
        grid.add_row(row.method, str(row.seeds), *scores)
    return grid


def new_table(first: str, *columns: str) -> Table:
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(first, no_wrap=True)
    for column in columns:
        grid.add_column(column, justify="right")
    return grid


def percent(share: Any) -> str:
    return f"{100 * share:.1f}"


def nearby(path: Path) -> str:
    from dmltune.report.summary import nearby

    return nearby(path)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
