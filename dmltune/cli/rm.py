"""`dmltune rm`: remove a search for ever. The test ledger stays."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dmltune.cli.boundary import FAILED
from dmltune.cli.output import Output, say
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.search.removal import Removal

SUMMARY = "remove a search: runs, models, study, checkpoints"
EXAMPLES = """\
  dmltune rm demo                                   asks before it removes
  dmltune rm demo --yes
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of a search that does not run")
    parser.add_flag("--yes", "do not ask")
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dataclasses import asdict

    from dmltune.search.removal import planned_removal, remove
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    searches = StoredSearches(Store.to_read(args.store))
    search = searches.get(args.name)
    planned = planned_removal(searches, search)
    if not args.yes and not agreed(planned):
        out.document(asdict(planned) | {"removed": False})
        out.show(f"'{search.name}' is not removed")
        return FAILED
    removed = remove(searches, search)
    out.document(asdict(removed) | {"removed": True})
    out.show(f"removed {described(removed)}. The test ledger stays.")
    if removed.checks:
        out.show(f"kept: check {', '.join(removed.checks)} (dmltune table {removed.checks[0]} shows it)")
    return 0


def described(removal: Removal) -> str:
    size = f"{removal.size / 2**20:.1f} MiB"
    return f"'{removal.name}': {removal.trials} trials, {removal.runs} runs, {size}"


def agreed(planned: Removal) -> bool:
    """Ask on the terminal; a UserError where nobody can answer."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UserError(
            f"rm removes {described(planned)} for ever, and there is no terminal to ask. Add --yes."
        )
    if planned.checks:
        say(f"its check {', '.join(planned.checks)} is kept")
    print(f"remove {described(planned)} for ever? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
