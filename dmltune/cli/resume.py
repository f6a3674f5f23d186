"""`dmltune resume`: continue a search by its name alone, as the command that began it would."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.best import add_search
from dmltune.cli.output import Output, say
from dmltune.cli.parser import Parser, add_address, add_concurrent, add_format, add_places, duration
from dmltune.cli.worker_options import add_worker_resources

if TYPE_CHECKING:
    from dmltune.search.stored import StoredSearch

SUMMARY = "continue a search by its name, with the options that it was started with"
EXAMPLES = """\
  dmltune resume demo
  dmltune resume demo --trials 40                   more trials
  dmltune resume birds --time 2h --workers 2
"""


def add_arguments(parser: Parser) -> None:
    add_search(parser)
    parser.add_number("--trials", "number of trials in all (default for this and the rest: as before)")
    parser.add_argument("--time", type=duration, metavar="30m", help="end after this time")
    parser.add_argument(
        "--cost", type=duration, metavar="8h", help="end after this working time of all processes together"
    )
    parser.add_number("--workers", "processes per trial")
    add_concurrent(parser, "trials at a time; auto: as many as the machine or cluster allows")
    add_worker_resources(parser)
    parser.add_argument("--isolation", choices=("slot", "trial"), help="warm workers, or new processes")
    add_address(parser, "as before")
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.cli.search import search_with, show_result
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    store = Store.to_read(args.store)
    search = StoredSearches(store).get(args.name)
    chosen = ChosenExperiment(search.experiment, search.space_name, search.name)
    result = search_with(session_options(args, search), chosen, store)
    return show_result(args, chosen, store, result, out)


def session_options(args: argparse.Namespace, search: StoredSearch) -> argparse.Namespace:
    """Return the options of the last session, changed by those that are given now."""
    from dmltune.search.session_options import SessionOptions

    if search.options is None:
        say(f"'{search.name}' was begun by a version that stored no options: --trials and others are default")
    before = search.options or SessionOptions()
    values: dict[str, Any] = {field.name: getattr(before, field.name) for field in fields(before)}
    values["data_root"] = None if before.data_root is None else Path(before.data_root)
    given = {name: getattr(args, name) for name in values if getattr(args, name) not in (None, [])}
    return argparse.Namespace(**(values | given), start_from=[])  # the study has their points
