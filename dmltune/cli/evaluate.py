"""`dmltune evaluate`: retrieval metrics of one embedder. The test ledger notes when test classes are read."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, new_table
from dmltune.cli.parser import Parser, add_format, add_places, override
from dmltune.cli.query import add_rerank

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = "measure a search's winner, or one run; test classes only with --split test"
EXAMPLES = """\
  dmltune evaluate demo                         on the validation classes
  dmltune evaluate demo --split test            on classes that no search has used
  dmltune evaluate demo --split test --compare   winner, baseline and untrained network side by side
  dmltune evaluate birds --split test --data-root ~/data -f json
  dmltune evaluate birds data.missing=skip      without listed images that cannot be read
  dmltune evaluate demo --clustering            NMI and F1 of k-means too
  dmltune evaluate demo --rerank k-reciprocal   neighbours in another order, without training
  dmltune evaluate people --pairs ~/data/lfw/pairs.txt     do two images show the same person?
  dmltune evaluate cub-lite-frozen              a space in which nothing learns, on the test classes
"""
SKIPPED = 5  # skipped images that are named in the table; the document has all


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the name of a search or training run, an MLflow run id, or a space in which nothing learns",
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes of the data by dotted key, such as data.missing=skip; of any key in an untrained space",
    )
    parser.add_argument(
        "--split",
        choices=("validation", "test"),
        help="which classes (default: validation; test for a space in which nothing learns)",
    )
    parser.add_flag("--compare", "also the search's baseline and the untrained network, side by side")
    parser.add_flag("--clustering", "also NMI and F1 of k-means with as many clusters as there are classes")
    parser.add_path(
        "--pairs",
        "also whether two images show the same: LFW's pairs.txt, YouTube Faces' splits.txt, the folder of"
        " IJB-C, or a CSV file with the columns left,right,same (1 or 0);"
        " faces are aligned by a landmarks.txt beside it",
        metavar="FILE",
    )
    add_rerank(parser)
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.progress import bar
    from dmltune.errors import UserError
    from dmltune.evaluation import compare, evaluate
    from dmltune.store import Store

    if args.compare and args.pairs is not None:
        raise UserError("--compare measures no pairs; leave out --pairs, or --compare.")
    with bar("images") as advance:
        options = {
            "split": args.split,
            "store": Store.at(args.store),
            "data_root": args.data_root,
            "clustering": args.clustering,
            "rerank": args.rerank,
            "progress": lambda done, total: advance(f"evaluate {args.name}", done, total),
        }
        if args.compare:
            result = compare(args.name, args.overrides, **options)
        else:
            result = evaluate(args.name, args.overrides, pairs=args.pairs, **options)
    out.document(result)
    out.show(*tables(result))
    return 0


def tables(result: Mapping[str, Any]) -> list[Any]:
    """Return a line per metric; small images are compared with raw pixels beside it."""
    from rich.text import Text

    from dmltune.report import formatting

    raw = result.get("raw_pixels", {})
    others: dict[str, Mapping[str, Any]] = {
        name: result[name] for name in ("baseline", "untrained") if name in result
    }
    others |= {"raw pixels": raw} if raw else {}
    difference = "to baseline" if "baseline" in others else "difference"
    grid = new_table(
        f"{result['split']} classes, %", result["name"], *others, *([difference] if others else [])
    )
    for metric, share in result.items():
        if isinstance(share, float) and metric != "queries_without_match":
            cells = [formatting.percent(share), *(formatting.percent(o.get(metric)) for o in others.values())]
            for other in list(others.values())[:1]:  # the baseline, without one raw pixels
                lead = share - other[metric] if metric in other else None
                cells.append(formatting.percent(lead, signed=True))
            grid.add_row(formatting.metric_name(metric), *cells)
    shape = new_table("shape of the embedding", result["name"])
    for figure, value in result.get("geometry", {}).items():
        shape.add_row(figure.replace("_", " "), f"{value:.3f}")
    loud = [Text(result["warning"], style="bold red"), ""] if "warning" in result else []
    parts = [grid, leads(result), reranked(result, others), clustered(result), verified(result), shape]
    body = [line for part in parts if part is not None for line in (part, "")]
    return ["", *loud, *body, *(Text(fact, style="dim") for fact in facts(result))]


def step_text(result: Mapping[str, Any]) -> str:
    return f"{result['step']} (untrained)" if result["step"] == 0 else str(result["step"])


def leads(result: Mapping[str, Any]) -> Table | None:
    """Return the leads over the others with their intervals, when they were measured."""
    from dmltune.report.formatting import percent

    if not result.get("leads"):
        return None
    grid = new_table("lead in MAP@R, points", result["name"], "95 % interval over classes")
    for name, lead in result["leads"].items():
        ends = (percent(lead[end], signed=True) for end in ("low", "high"))
        difference = percent(lead["difference"], signed=True)
        grid.add_row(f"over {name.replace('_', ' ')}", difference, " to ".join(ends))
    return grid


def facts(result: Mapping[str, Any]) -> list[str]:
    """Return which images and which run were measured."""
    lines = [f"{result['images']:,} images of {result['classes']:,} classes of {result['data']}"]
    if skipped := result.get("skipped"):
        names = ", ".join(skipped[:SKIPPED]) + (", …" if len(skipped) > SKIPPED else "")
        lines.append(f"{len(skipped):,} listed images are missing or unreadable and were skipped: {names}")
    if unmatched := int(result.get("queries_without_match", 0)):
        lines.append(f"{unmatched:,} of them have no other image of their class and are left out")
    lines.append(
        result.get("note", f"trial {result['trial']}, step {step_text(result)}, run {result['run_id']}")
    )
    if landmarks := result.get("pairs", {}).get("landmarks"):
        lines.append(f"the {result['pairs']['images']:,} images of the pairs are aligned by {landmarks}")
    if "queries" in result:
        lines.append(f"{result['queries']:,} queries against a gallery of {result['gallery']:,}")
    return lines


def clustered(result: Mapping[str, Any]) -> Table | None:
    """Return NMI and F1, when they were computed."""
    from dmltune.report.formatting import percent

    figures = result.get("clustering")
    if not figures:
        return None
    grid = new_table(f"{result['classes']:,} clusters of k-means, %", result["name"])
    grid.add_row("NMI", percent(figures["nmi"]))
    grid.add_row("F1", percent(figures["f1"]))
    return grid


def reranked(result: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """Return MAP@R and P@1 after re-ranking and the gain, when they were computed."""
    from dmltune.report.formatting import percent

    if "reranked" not in result:
        return None
    shown = {result["name"]: result} | {name: other for name, other in others.items() if "reranked" in other}
    grid = new_table(f"re-ranked by {result['reranked']['method']}, %", *shown)
    for metric, title in (("map_at_r", "MAP@R"), ("precision_at_1", "P@1")):
        grid.add_row(title, *(percent(each["reranked"][metric]) for each in shown.values()))
    gains = (percent(each["reranked"]["gain"], signed=True) for each in shown.values())
    grid.add_row("gain in MAP@R", *gains)
    return grid


def verified(result: Mapping[str, Any]) -> Table | None:
    """Return accuracy and rates of pairs, when they were computed."""
    from dmltune.report.formatting import percent

    figures = result.get("pairs")
    if not figures:
        return None
    title = f"{figures['same']:,} pairs of the same and {figures['other']:,} of two, %"
    grid = new_table(title, result["name"])
    if "accuracy" in figures:
        spread = percent(figures["accuracy_sd"])
        grid.add_row(f"accuracy, {figures['folds']} folds", f"{percent(figures['accuracy'])} ± {spread}")
    for far, rate in figures["tar_at_far"].items():
        none = f" (0 of {figures['other']:,})" if float(far) * figures["other"] < 1 else ""
        grid.add_row(f"TAR at FAR {100 * float(far):g} %{none}", percent(rate))
    return grid
