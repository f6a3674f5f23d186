"""`dmltune search`: trials on Ray, chosen by Optuna, kept by MLflow."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, console_for
from dmltune.cli.parser import (
    Parser,
    add_cluster,
    add_experiment,
    add_format,
    add_places,
    at_least,
    duration,
    overrides_of,
)

if TYPE_CHECKING:
    from dmltune.search.state import Event

SUMMARY = "search the hyperparameters of a space; the same name again goes on where it stopped"
EXAMPLES = """\
  dmltune search glyphs-ccp --trials 12 --name demo
  dmltune search cub-lite-ccp --data-root ~/data --time 2h
  dmltune search cub-ccp loss.neg_margin=0.5 sampler=gp --trials 40 --workers 2
  dmltune search my_space.yaml --dry-run
  dmltune search --data ./photos --time 2h          your images: a folder for each class, no YAML
  dmltune search --data photos.csv max_steps=300 --write search_spaces/photos.yaml --dry-run
"""


def add_arguments(parser: Parser) -> None:
    add_experiment(parser, "what to search")
    add_places(parser)
    parser.add_argument(
        "--trials", type=at_least(1), metavar="N", help="how many trials in all (default: the space's)"
    )
    parser.add_argument(
        "--time", type=duration, metavar="30m", help="end after this time; the same name goes on"
    )
    parser.add_argument(
        "--name", help="the search's name (default: space and time); an existing one is resumed"
    )
    add_cluster(parser, "trial")
    parser.add_argument(
        "--isolation",
        choices=("slot", "trial"),
        default="slot",
        help="slot: warm workers serve trial after trial (default); trial: fresh processes for each",
    )
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli import experiment_choice
    from dmltune.store import Store

    chosen = experiment_choice.choose_experiment(args)
    experiment = chosen.experiment
    experiment_choice.show(chosen)
    if args.dry_run:
        from dmltune.cli.dry_run import show_plan

        return show_plan(chosen, args, out)
    from dmltune.cli import INTERRUPTED
    from dmltune.report.formatting import flat
    from dmltune.report.summary import summary, warning
    from dmltune.search.api import search

    store = Store.at(args.store)
    chosen.keep(store.search_folder(chosen.name))
    baseline = flat(experiment.baseline)
    with watching(baseline) as watch:
        result = search(
            experiment,
            name=chosen.name,
            trials=args.trials,
            time=args.time,
            workers=args.workers,
            concurrent=args.concurrent,
            isolation=args.isolation,
            store=store,
            data_root=args.data_root,
            space_name=chosen.space_name,
            address=args.address,
            watch=watch,
        )
    out.show(*summary(result, again(args, result.name), places(args), baseline))
    seen = warning(result.protocol)
    out.document(result.to_dict() | ({"warning": seen} if seen else {}) | chosen.document())
    if result.reason == "stopped":
        return INTERRUPTED
    return 0 if result.winner is not None else 1


@contextmanager
def watching(baseline: Mapping[str, Any]) -> Iterator[Callable[[Event], None]]:
    """The live table on a terminal, lines otherwise; both on stderr, so that stdout stays the result's."""
    console = console_for(sys.stderr)
    if console.is_terminal:
        from dmltune.report.live_table import live

        with live(console, baseline) as watch:
            yield watch
    else:
        from dmltune.report.log_lines import plain

        yield plain(sys.stderr)


def again(args: argparse.Namespace, name: str) -> str:
    """The command that goes on with this search: everything that was given but the limits."""
    given = {"--workers": args.workers if args.workers > 1 else None, "--concurrent": args.concurrent}
    given |= {"--isolation": args.isolation if args.isolation != "slot" else None, "--address": args.address}
    options = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    about = [args.space] if args.data is None else ["--data", str(args.data)]
    return shlex.join(["dmltune", "search", *about, *overrides_of(args), "--name", name, *options]) + places(
        args
    )


def places(args: argparse.Namespace) -> str:
    """The options that say where data and store are, as they were given."""
    given = {"--data-root": args.data_root, "--store": args.store}
    words = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    return f" {shlex.join(words)}" if words else ""


def name_of(space: str) -> str:
    """`search_spaces/mine.yaml` → `mine`."""
    return Path(space).stem if space.endswith((".yaml", ".yml")) else space
