"""`dmltune best`: the winner of a search."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store, places_of
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.search.state import TrialRecord
    from dmltune.search.stored import StoredSearch

SUMMARY = "show the winner of a search: score, settings, winner set, front"
EXAMPLES = """\
  dmltune best demo
  dmltune best demo -f json                         score as a fraction, values by dotted key
"""


def add_arguments(parser: Parser) -> None:
    add_search(parser)
    add_store(parser)
    add_format(parser)


def add_search(parser: Parser, help: str = "the name of a search; `dmltune runs` lists them") -> None:
    parser.add_argument("name", metavar="NAME", help=help)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.stored_searches import best_view
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    search = StoredSearches(Store.to_read(args.store)).get(args.name)
    winner = winner_of(search)
    out.document(
        {
            "name": search.name,
            "space": search.space_name,
            "state": search.status,
            "metric": search.metric,
            "mode": search.mode,
            "winner": asdict(winner),
            "verdict": None if search.outcome is None else asdict(search.outcome),
            "front": None if search.front is None else asdict(search.front),
        }
    )
    out.show(*best_view(search, winner, places_of(args)))
    return 0


def winner_of(search: StoredSearch) -> TrialRecord:
    """Return the winner, or the best trial so far; a search without a complete trial is a UserError."""
    if (winner := search.winner) is not None:
        return winner
    remedy = "Wait for it." if search.status == "running" else f"Continue it: dmltune resume {search.name}"
    raise UserError(f"search '{search.name}' has no complete trial yet. {remedy}")
