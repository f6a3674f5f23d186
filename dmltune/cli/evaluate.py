"""`dmltune evaluate`: the only command that opens the test classes, and only when told to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_places

SUMMARY = "measure a search's winner, or one run; test classes only with --split test"
EXAMPLES = """\
  dmltune evaluate demo                         on the validation classes
  dmltune evaluate demo --split test            on classes that no search has seen
  dmltune evaluate birds --split test --data-root ~/data -f json
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the name of a search or training run, or an MLflow run id"
    )
    parser.add_argument(
        "--split",
        choices=("validation", "test"),
        default="validation",
        help="which classes (default: validation)",
    )
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store
    from dmltune.train import evaluate

    result = evaluate(args.name, split=args.split, store=Store.at(args.store), data_root=args.data_root)
    out.document(result)
    out.show(*tables(args.name, args.split, result))
    return 0


def tables(name: str, split: str, result: Mapping[str, Any]) -> list[Any]:
    """One column per embedder that was measured, one line per metric."""
    from rich.table import Table
    from rich.text import Text

    from dmltune.report import words

    columns = {name: result["metrics"]} | {
        key.replace("_", " "): value
        for key, value in result.items()
        if key != "metrics" and is_metrics(value)
    }
    grid = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(f"{split} classes, %", no_wrap=True)
    for column in columns:
        grid.add_column(column, justify="right")
    for metric in result["metrics"]:
        cells = [cell(metric, values.get(metric)) for values in columns.values()]
        grid.add_row(words.metric_name(metric), *cells)
    facts = [
        f"{key.replace('_', ' ')}: {value}" for key, value in result.items() if isinstance(value, str | int)
    ]
    return ["", grid, "", *(Text(fact, style="dim") for fact in facts)]


def is_metrics(value: object) -> bool:
    return isinstance(value, Mapping) and "map_at_r" in value


def cell(metric: str, value: float | None) -> str:
    """Counts and radii as they are, shares in percent."""
    from dmltune.report import words

    if value is None:
        return "–"
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}" if metric == "covering_radius" else words.percent(value)
