"""`dmltune compare`: two searches, or two trials, side by side."""

from __future__ import annotations

import argparse

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store

SUMMARY = "compare two searches or trials: settings, scores, lead and noise"
EXAMPLES = """\
  dmltune compare demo demo-1                       the winners of two searches
  dmltune compare demo/3 demo/0                     two trials of a search
  dmltune compare demo demo/1 -f json               the winner and the baseline
"""


def add_arguments(parser: Parser) -> None:
    for name, place in (("left", "A"), ("right", "B")):
        parser.add_argument(name, metavar=place, help="a search, which stands for its winner, or NAME/TRIAL")
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.comparison import comparison_view, document
    from dmltune.search.comparing import compare
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    found = compare(StoredSearches(Store.to_read(args.store)), args.left, args.right)
    out.document(document(found))
    out.show(*comparison_view(found))
    return 0
