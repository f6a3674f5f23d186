"""`dmltune search`: Ray runs the trials, Optuna proposes them, MLflow stores them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, console_for
from dmltune.cli.parser import (
    Parser,
    add_cluster,
    add_experiment,
    add_format,
    add_name,
    add_places,
    command_line,
    duration,
    places_of,
)
from dmltune.cli.submission import JOB_COMMAND
from dmltune.cli.worker_options import worker_resources
from dmltune.store import validated_name

if TYPE_CHECKING:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.search.state import SearchEvent, SearchResult
    from dmltune.store import Store

SUMMARY = "search the hyperparameters of a space; an existing name is continued"
EXAMPLES = """\
  dmltune search collage-ccp-gsp --name demo
  dmltune search cub-lite-ccp --data-root ~/data --time 2h
  dmltune search cub-ccp loss.neg_margin=0.5 sampler=gp --trials 40 --workers 2
  dmltune search glyphs-gsp objective.against=[parameters,ms_per_image]
  dmltune search my_space.yaml --dry-run
  dmltune search --data ./photos --time 2h          your images: a folder per class, no YAML
  dmltune search --data photos.csv max_steps=300 --write search_spaces/photos.yaml --dry-run
"""


def add_arguments(parser: Parser) -> None:
    add_experiment(parser, "what to search")
    add_places(parser)
    parser.add_number("--trials", "number of trials in all (default: the space's)")
    parser.add_argument(
        "--time", type=duration, metavar="30m", help="end after this time; the same name continues"
    )
    parser.add_argument(
        "--cost", type=duration, metavar="8h", help="end after this working time of all processes together"
    )
    parser.add_argument(
        "--from",
        dest="start_from",
        action="append",
        default=[],
        type=validated_name,
        metavar="SEARCH",
        help="learn from the ranks of an earlier search; may be repeated",
    )
    add_name(parser, "space and time")
    add_cluster(parser, "trial")
    parser.add_argument(
        "--isolation",
        choices=("slot", "trial"),
        default="slot",
        help="slot: warm workers run trial after trial (default); trial: new processes for each",
    )
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli import experiment_choice
    from dmltune.cli.recommendation import recommended

    chosen = experiment_choice.choose_experiment(args)
    experiment_choice.show(chosen)
    if args.dry_run:
        from dmltune.cli.dry_run import show_plan

        with recommended(args, chosen):
            return show_plan(chosen, args, out)
    from dmltune.store import Store

    store = Store.at(args.store)
    chosen.write_to(store.search_folder(chosen.name))
    with recommended(args, chosen):
        result = search_with(args, chosen, store)
    return show_result(args, chosen, store, result, out)


def show_result(
    args: argparse.Namespace, chosen: ChosenExperiment, store: Store, result: SearchResult, out: Output
) -> int:
    """Print the end of a session; return the exit code. `args` are those of the command that was typed."""
    from dmltune.cli.boundary import INTERRUPTED
    from dmltune.ledger import Ledger
    from dmltune.report.formatting import flat
    from dmltune.report.summary import summary, warning

    baseline = flat(chosen.experiment.baseline)
    resume = command_line(args, name=result.name)
    trials = sum(row.role not in ("repeat", "cheap") for row in result.rows)
    extend = command_line(args, name=result.name, trials=2 * trials)
    opened = Ledger(store).was_opened(chosen.experiment.data.name)
    if (job := os.environ.get(JOB_COMMAND)) is not None:  # whoever submitted it shows what comes next
        resume = extend = job
    shown = summary(result, resume, extend, places_of(args), baseline, test_opened=opened, steps=job is None)
    out.show(*shown)
    notice = warning(result.protocol)
    out.document(result.to_dict() | ({"warning": notice} if notice else {}) | chosen.document())
    if result.reason == "stopped":
        return INTERRUPTED
    return 0 if result.winner is not None else 1


def search_with(args: argparse.Namespace, chosen: ChosenExperiment, store: Store) -> SearchResult:
    """Run a session of the search with the options of `args`."""
    from dmltune.report.formatting import flat
    from dmltune.search.api import search

    with watching(flat(chosen.experiment.baseline)) as watch:
        return search(
            chosen.experiment,
            name=chosen.name,
            trials=args.trials,
            time=args.time,
            cost=args.cost,
            start_from=args.start_from,
            workers=args.workers,
            concurrent=args.concurrent,
            isolation=args.isolation,
            per_worker=worker_resources(args),
            store=store,
            data_root=args.data_root,
            space_name=chosen.space_name,
            address=args.address,
            watch=watch,
        )


@contextmanager
def watching(baseline: Mapping[str, Any]) -> Iterator[Callable[[SearchEvent], None]]:
    """Yield what shows events: a live table on a terminal, lines otherwise; both on stderr."""
    from dmltune.report.search_progress import WIDEST, live, plain

    console = console_for(sys.stderr, WIDEST)
    if console.is_terminal:
        with live(console, baseline) as watch:
            yield watch
    else:
        yield plain(sys.stderr)
