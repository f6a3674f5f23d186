"""`dmltune evaluate`: one embedder, measured; on test classes when told to or where nothing was trained, and
then the test ledger says so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_places

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = "measure a search's winner, or one run; test classes only with --split test"
EXAMPLES = """\
  dmltune evaluate demo                         on the validation classes
  dmltune evaluate demo --split test            on classes that no search has seen
  dmltune evaluate birds --split test --data-root ~/data -f json
  dmltune evaluate demo --clustering            NMI and F1 of k-means too
  dmltune evaluate people --pairs ~/data/lfw/pairs.txt     the same face, or another?
  dmltune evaluate cub-lite-frozen              a space in which nothing learns, as it is, on the test classes
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the name of a search or training run, an MLflow run id, or a space in which nothing learns",
    )
    parser.add_argument(
        "--split",
        choices=("validation", "test"),
        help="which classes (default: validation; test for a space in which nothing learns)",
    )
    parser.add_argument(
        "--clustering",
        action="store_true",
        help="also NMI and F1 of k-means with as many clusters as there are classes",
    )
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE",
        help="also whether two images show the same: LFW's pairs.txt, the folder of IJB-C, or a CSV file"
        " with the columns left,right,same (1 or 0)",
    )
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.evaluation import evaluate
    from dmltune.store import Store

    result = evaluate(
        args.name,
        split=args.split,
        store=Store.at(args.store),
        data_root=args.data_root,
        clustering=args.clustering,
        pairs=args.pairs,
    )
    out.document(result)
    out.show(*tables(result))
    return 0


def tables(result: Mapping[str, Any]) -> list[Any]:
    """One line per metric; what raw pixels reach stands beside it for small images."""
    from rich.table import Table
    from rich.text import Text

    from dmltune.report import formatting

    raw = result.get("raw_pixels", {})
    grid = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(f"{result['split']} classes, %", no_wrap=True)
    grid.add_column(result["name"], justify="right")
    if raw:
        grid.add_column("raw pixels", justify="right")
        grid.add_column("difference", justify="right")
    for metric, share in result.items():
        if isinstance(share, float) and metric != "queries_without_match":
            cells = [formatting.percent(share)]
            if metric in raw:
                cells += [
                    formatting.percent(raw[metric]),
                    formatting.percent(share - raw[metric], signed=True),
                ]
            grid.add_row(formatting.metric_name(metric), *cells)
    shape = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    shape.add_column("shape of the embedding", no_wrap=True)
    shape.add_column(result["name"], justify="right")
    for figure, value in result.get("geometry", {}).items():
        shape.add_row(figure.replace("_", " "), f"{value:.3f}")
    facts = [f"{result['images']:,} images of {result['classes']:,} classes of {result['data']}"]
    if unmatched := int(result.get("queries_without_match", 0)):
        facts.append(f"{unmatched:,} of them have no other image of their class and are left out")
    run = f"trial {result['trial']}, step {result['step']}, run {result['run_id']}"
    facts.append(result.get("note", run))
    if "queries" in result:
        facts.append(f"{result['queries']:,} queries against a gallery of {result['gallery']:,}")
    loud = [Text(result["warning"], style="bold red"), ""] if "warning" in result else []
    more = [
        part for found in (clustered(result), verified(result)) if found is not None for part in (found, "")
    ]
    return ["", *loud, grid, "", *more, shape, "", *(Text(fact, style="dim") for fact in facts)]


def clustered(result: Mapping[str, Any]) -> Table | None:
    """NMI and F1, when they were asked for."""
    found = result.get("clustering")
    if not found:
        return None
    grid = _grid(f"{result['classes']:,} clusters of k-means, %", result["name"])
    grid.add_row("NMI", _percent(found["nmi"]))
    grid.add_row("F1", _percent(found["f1"]))
    return grid


def verified(result: Mapping[str, Any]) -> Table | None:
    """Accuracy and rates of pairs, when they were asked for."""
    found = result.get("pairs")
    if not found:
        return None
    grid = _grid(f"{found['same']:,} pairs of the same and {found['other']:,} of two, %", result["name"])
    if "accuracy" in found:
        spread = _percent(found["accuracy_sd"])
        grid.add_row(f"accuracy, {found['folds']} folds", f"{_percent(found['accuracy'])} ± {spread}")
    for far, rate in found["tar_at_far"].items():
        none = f" (0 of {found['other']:,})" if float(far) * found["other"] < 1 else ""
        grid.add_row(f"TAR at FAR {100 * float(far):g} %{none}", _percent(rate))
    return grid


def _grid(title: str, name: str) -> Table:
    from rich.table import Table

    grid = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(title, no_wrap=True)
    grid.add_column(name, justify="right")
    return grid


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
