"""`dmltune importance`: which searched parameters matter, with intervals."""

from __future__ import annotations

import argparse

from dmltune.cli.best import add_search
from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store

SUMMARY = "show how much each searched parameter matters, with intervals"
EXAMPLES = """\
  dmltune importance demo
  dmltune importance demo -f json                   shares between 0 and 1
"""


def add_arguments(parser: Parser) -> None:
    add_search(parser)
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dataclasses import asdict

    from dmltune.report.importance_chart import importance_view
    from dmltune.search.importance import importances
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    search = StoredSearches(Store.to_read(args.store)).get(args.name)
    found = importances(search)
    out.document({"name": search.name, "metric": search.metric} | asdict(found))
    out.show(*importance_view(search.name, search.metric, found))
    return 0
