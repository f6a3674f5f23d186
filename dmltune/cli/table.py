"""`dmltune table`: every check of the store as one table: text, Markdown, CSV, LaTeX or JSON."""

from __future__ import annotations

import argparse
from pathlib import Path

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_store
from dmltune.errors import UserError, readable

SUMMARY = "all checks as one table: text, Markdown, CSV or LaTeX"
EXAMPLES = """\
  dmltune table                                     every check of the store, MAP@R
  dmltune table birds cars --format markdown        these two, for a README
  dmltune table --metric map_at_r,precision_at_1 --format latex --out table.tex
  dmltune table --format csv --out checks.csv       a line for every cell, with run, commit and data
"""
FORMATS = ("text", "markdown", "csv", "latex", "json")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="checks, or searches that were checked (default: all of the store)",
    )
    parser.add_argument(
        "--metric", default="map_at_r", metavar="A,B", help="which metrics (default: map_at_r)"
    )
    parser.add_flag("--ensemble", "also ensembles of the models of all folds; never marked")
    parser.add_path("--out", "the file to write (default: print)", metavar="FILE")
    parser.add_argument(
        "-f", "--format", choices=FORMATS, default="text", help="scores are fractions in csv and json"
    )
    add_store(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store
    from dmltune.tables.finished_checks import checks
    from dmltune.tables.overview import document, overview

    finished = checks(Store.to_read(args.store), args.names)
    cells = overview(finished, [metric.strip() for metric in args.metric.split(",")], args.ensemble)
    if not cells:
        raise UserError("no check in this store has scores yet. Make one with: dmltune check SEARCH")
    table = document(cells)
    out.document(table)
    if args.out:
        write(args.out, rendered(table, args.format))
        out.show(str(args.out))
    else:
        out.text(rendered(table, args.format))
    return 0


def rendered(table: dict[str, object], form: str) -> str:
    from dmltune.cli.output import to_json
    from dmltune.report.table_formats import FORMATS

    return to_json(table) if form == "json" else FORMATS[form](table)


def write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"--out must be a file that can be written; got {readable(str(file))} ({error.strerror})."
        ) from None
