"""`dmltune reproduce`: a study of the papers, run here: its table, its picture."""

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

    from dmltune.reproduce.collage import Study
    from dmltune.reproduce.synthetic_run import SyntheticStudy

SUMMARY = "run a study of the papers: its table and its picture"
EXAMPLES = """\
  dmltune reproduce synthetic                       a minute, one core
  dmltune reproduce collage                         48 trainings, two at a time
  dmltune reproduce collage --poolings gap,gsp --seeds 1 --name quick
  dmltune reproduce collage data.name=cifar_collage --name cifar
"""
STUDIES = ("synthetic", "collage")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "study",
        metavar="STUDY",
        choices=STUDIES,
        help="synthetic: tokens under gap and gsp (thesis 5.3.1); collage: fifteen poolings (5.3.2)",
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="collage: changes to the space `collage` by dotted key, such as data.name=cifar_collage",
    )
    parser.add_argument("--seeds", type=at_least(1), default=3, metavar="N", help="how many (default: 3)")
    parser.add_argument(
        "--steps", type=at_least(1), metavar="N", help="of every training (default: the study's)"
    )
    parser.add_argument(
        "--poolings", metavar="A,B", help="collage: only these, gsp+zero_shot among them (default: all)"
    )
    parser.add_argument("--name", help="of its runs (default: the study's); an existing one is continued")
    parser.add_argument(
        "--concurrent", type=at_least(1), metavar="N", help="collage: trainings at a time (default: cores)"
    )
    parser.add_argument("--address", help="collage: a Ray cluster to run on (default: this machine)")
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    return synthetic(args, out) if args.study == "synthetic" else collage(args, out)


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


def collage_table(study: Study) -> Table:
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
