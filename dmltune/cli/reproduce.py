"""`dmltune reproduce`: a figure or a table of the papers, run here; a table beside the printed figures."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    places_of,
)
from dmltune.errors import UserError, readable

if TYPE_CHECKING:
    from rich.table import Table

    from dmltune.reproduce.study_run import StudyOutcome

SUMMARY = "a figure or table of the papers, run here"
EXAMPLES = """\
  dmltune reproduce --list                          every figure and table: what it needs, what is at hand
  dmltune reproduce fig3.8 --data glyphs --seeds 3
  dmltune reproduce collage --rows gap,gsp --seeds 1 --name quick max_steps=120
  dmltune reproduce 3.1                             the paper's figures beside those of this store
  dmltune reproduce 3.1 --run --rows C2+CCP-L --data CUB --data-root ~/data
  dmltune reproduce 3.1 --run --data CUB --name quick data.size=128 max_steps=100 --repeats 1 --dry-run
  dmltune reproduce 3.1 --run --data glyphs --rows C2+CCP-L --repeats 1    on rendered characters
"""
OF_FIGURES, OF_TABLES = ("seeds",), ("run", "repeats", "folds", "workers")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "study",
        metavar="STUDY",
        nargs="?",
        help="a figure or table that --list shows, such as fig3.5 or 3.1, or a YAML file like the tables",
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes to every training by dotted key, such as max_steps=120",
    )
    parser.add_flag("--list", "every figure and table of the papers, and what it needs")
    parser.add_argument(
        "--data",
        metavar="A,B",
        help="tables: only these data sets, or glyphs, a stand-in for them; figures: the one to train on",
    )
    parser.add_argument("--rows", metavar="A,B", help="only these rows; with --run their baselines too")
    parser.add_number("--seeds", "figures: trainings of every kind, each with another seed")
    parser.add_flag(
        "--tiny", "the smallest size at which everything runs, in this process: to try the command"
    )
    parser.add_flag("--run", "tables: train what is chosen and not trained yet")
    parser.add_number("--repeats", "tables: models of every fold (default: as in print)")
    parser.add_number("--folds", "tables: only the first N folds (default: as in print)")
    parser.add_flag("--dry-run", "show which trainings it needs, which are done and what they cost")
    add_name(parser, "the figure's or table's")
    parser.add_number("--workers", "tables: processes of every training (default: 1)")
    parser.add_number("--concurrent", "trainings at a time (default: cores)")
    add_address(parser)
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.reproduce import figures

    if args.list:
        return show_list(args, out)
    if args.study is None:
        raise UserError("reproduce needs the name of a figure or table; dmltune reproduce --list shows all.")
    is_figure = args.study in figures.names()
    for option in OF_TABLES if is_figure else OF_FIGURES:
        if getattr(args, option):
            kind = "tables; for a figure leave it out" if is_figure else "figures; for a table leave it out"
            raise UserError(f"--{option} is for {kind}.")
    if is_figure:
        return figure(args, out)
    from dmltune.cli.reproduce_table import table

    return table(args, out)


def figure(args: argparse.Namespace, out: Output) -> int:
    """Train what a figure needs, draw it, and answer its question."""
    from dmltune.reproduce.study_run import StudyOptions, run_study
    from dmltune.resources import Locations, Resources
    from dmltune.store import Store

    options = StudyOptions(
        name=args.name or "",
        data=args.data or "",
        seeds=args.seeds,
        rows=tuple(listed(args.rows)),
        overrides=tuple(args.overrides),
        tiny=args.tiny,
    )
    resources = Resources(1, args.concurrent, args.address, in_process=args.tiny)
    store = Store.to_read(args.store) if args.dry_run else Store.at(args.store)
    locations = Locations(store, args.data_root)
    if args.dry_run:
        from dmltune.cli.reproduce_plan import plan_figure

        return plan_figure(args, options, locations, out)
    outcome = run_study(args.study, options, resources, locations, say)
    out.document(outcome)
    show_figure(outcome, out)
    return closing(args, out, outcome.failed, outcome.stopped)


def show_figure(outcome: StudyOutcome, out: Output) -> None:
    from dmltune.report.summary import nearby
    from dmltune.report.terminal import lines

    out.show("", *lines(f"{outcome.source}: {outcome.about}", "bold"))
    if data := outcome.data:
        out.show(*lines(f"{data['label']}{', a stand-in' * data['stand_in']}: {data['about']}", "dim"))
    for table in outcome.tables:
        if table["title"]:
            out.show("", *lines(table["title"]))
        out.show("", grid(table))
    out.show("", *(line for answer in outcome.answers for line in lines(answer)))
    for picture in outcome.pictures:
        out.show(f"picture: {nearby(picture)}")


def grid(table: Mapping[str, Any]) -> Table:
    """Return a table of a figure; values of a column with % are shown in percent."""
    from dmltune.report import formatting
    from dmltune.reproduce.study_run import column_key

    def text(column: str, value: Any) -> str:
        if value is None or (column.endswith("%") and not isinstance(value, str)):
            return formatting.percent(value)
        return formatting.value(value)

    shown = new_table(*table["columns"])
    for row in table["rows"]:
        shown.add_row(*(text(column, row[column_key(column)]) for column in table["columns"]))
    return shown


def show_list(args: argparse.Namespace, out: Output) -> int:
    """Show every table and figure with its command and whether it runs on data at hand."""
    from rich.text import Text

    from dmltune.report.terminal import lines
    from dmltune.reproduce.listing import everything

    entries = everything(args.data_root)
    out.document(entries)
    for entry in entries:
        out.show(Text.assemble((entry.name, "bold"), (f"   {entry.source}", "dim")))
        out.show(*lines(entry.about, "", "  ", "  "))
        if entry.note:
            out.show(*lines(entry.note, "dim", "  ", "  "))
        needs = "needs no data" if entry.needs_no_data else f"needs {' or '.join(entry.needs)}"
        if entry.at_hand:
            stand_in = " (a stand-in)" if entry.stand_in else ""
            needs += f"; at hand: {', '.join(entry.at_hand)}{stand_in}"
        elif not entry.needs_no_data:
            needs += "; none is at hand, see --data-root"
        out.show(*lines(needs, "dim", "  ", "  "))
        out.show(f"  {entry.command}{places_of(args)}")
    return 0


def closing(args: argparse.Namespace, out: Output, failed: Mapping[str, str], stopped: bool) -> int:
    """Show which trainings failed and how a stopped run continues; return the exit code."""
    for member, reason in failed.items():
        out.show(f"{member} failed: {reason}")
    if stopped:
        out.show("stopped before its end. It continues with", f"  {command_line(args)}")
        return INTERRUPTED
    return 1 if failed else 0


def listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()] if names else []


def unknown(study: str) -> UserError:
    """Return the error for a name that is neither a figure nor a table."""
    from dmltune.experiment.problems import near_or_list
    from dmltune.reproduce import figures
    from dmltune.reproduce.paper_tables import table_names

    known = [*table_names(), *figures.names()]
    return UserError(f"no figure or table {readable(study)}{near_or_list(study, known, 'there are')}")
