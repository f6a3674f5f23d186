"""`dmltune runs`: all searches of the store."""

from __future__ import annotations

import argparse

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store

SUMMARY = "list the searches of the store: state, trials, best score, duration"
EXAMPLES = """\
  dmltune runs
  dmltune runs --store /data/mlruns
  dmltune runs -f json                              a list, the latest search last
"""


def add_arguments(parser: Parser) -> None:
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.report.stored_searches import facts, runs_table
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    store = Store.to_read(args.store)
    searches = StoredSearches(store).all()
    out.document([facts(search) for search in searches])
    if searches:
        out.show(runs_table(searches))
    else:
        out.show(f"no searches in {store.place}. Begin one with: dmltune search collage-ccp-gsp --name demo")
    return 0
