"""`dmltune check`: is the winner of a search better than the baseline, by how much, or was it luck?"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_cluster, add_format, add_places, at_least, override

if TYPE_CHECKING:
    from rich.table import Table

    from dmltune.check.api import PreparedCheck

SUMMARY = "the reality check of a search: folds, seeds, unseen classes, statistics"
EXAMPLES = """\
  dmltune check demo                            winner, paper's point, baseline: 4 folds × 3 seeds each
  dmltune check birds --repeats 2 --data-root ~/data
  dmltune check birds --top 3 --fair-baseline   the baseline is searched as long as the method was
  dmltune check birds --repeats 5               adds two more seeds to the check that is there
  dmltune check birds --dry-run                 what would be trained
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("search", metavar="SEARCH", help="the name of a search that has ended")
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes to all configurations alike by dotted key: max_steps=2000",
    )
    parser.add_argument(
        "--top",
        type=at_least(1),
        default=1,
        metavar="K",
        help="check the K best trials (default: the winner)",
    )
    parser.add_argument(
        "--repeats", type=at_least(1), metavar="N", help="seeds for each fold (default: 3); more may follow"
    )
    parser.add_argument(
        "--folds", type=at_least(1), metavar="N", help="how many folds (default: all 4 of protocol fair)"
    )
    parser.add_argument(
        "--fair-baseline",
        action="store_true",
        help="search the baseline first, with as many trials as the method had",
    )
    parser.add_argument(
        "--name", help="of its runs (default: SEARCH-check); an existing one is continued, and only added to"
    )
    add_cluster(parser, "training")
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store

    store = Store.at(args.store)
    if args.dry_run:
        return show_plan(args, out)
    from dmltune.check.api import check
    from dmltune.cli import INTERRUPTED
    from dmltune.report.check_table import check_table
    from dmltune.report.log_lines import plain
    from dmltune.report.summary import nearby

    result = check(
        args.search,
        top=args.top,
        repeats=args.repeats,
        folds=args.folds,
        fair_baseline=args.fair_baseline,
        name=args.name,
        overrides=args.overrides,
        workers=args.workers,
        concurrent=args.concurrent,
        address=args.address,
        store=store,
        data_root=args.data_root,
        say=say,
        watch=plain(sys.stderr),
    )
    document = result.to_dict()
    out.document(document)
    if result.stopped:
        out.show("", "stopped before its end; figures on test classes are shown when all are there.")
        out.show("it goes on with", again(args))
        return INTERRUPTED
    out.show(*check_table(document))
    if result.nothing_new:
        out.show("finished before: nothing was trained, and no test class was read")
    if result.page is not None:
        out.show(f"report: {nearby(result.page)}")
    return 1 if document["failed"] else 0


def again(args: argparse.Namespace) -> str:
    """The command that goes on with this check: everything that was given."""
    words = ["dmltune", "check", args.search, *args.overrides]
    given = {
        "--top": args.top if args.top > 1 else None,
        "--repeats": args.repeats,
        "--folds": args.folds,
        "--name": args.name,
        "--workers": args.workers if args.workers > 1 else None,
        "--concurrent": args.concurrent,
        "--address": args.address,
        "--data-root": args.data_root,
        "--store": args.store,
    }
    options = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    return shlex.join([*words, *(["--fair-baseline"] if args.fair_baseline else []), *options])


def show_plan(args: argparse.Namespace, out: Output) -> int:
    from dmltune.check.api import prepare
    from dmltune.check.baseline_search import baseline_space
    from dmltune.store import Store

    store = Store.at(args.store)
    ready = prepare(
        args.search, top=args.top, repeats=args.repeats, folds=args.folds, name=args.name,
        overrides=args.overrides, store=store, data_root=args.data_root,
    )  # fmt: skip
    searched = list(baseline_space(ready.search.experiment).search) if args.fair_baseline else []
    plan, folder = ready.plan, store.search_folder(ready.name)
    members = plan.members()
    done = sum((folder / "trials" / member.name / "result.json").is_file() for member in members)
    out.document(
        {
            "name": ready.name,
            "search": ready.search.name,
            "protocol": plan.protocol,
            "folds": plan.folds,
            "repeats": plan.repeats,
            "baseline": plan.baseline,
            "baseline_search": searched,
            "configurations": [
                {"key": one.key, "labels": one.labels, "values": one.values, "digest": one.digest}
                for one in plan.configurations
            ],
            "members": [member.name for member in members],
            "trained": done,
        }
    )
    out.show("", plan_table(ready), "")
    models = f"{len(members)} models: {len(plan.configurations)} configurations"
    out.show(f"{models} × {plan.folds} folds × {plan.repeats} seeds, protocol {plan.protocol}")
    out.show(f"{done} of them are there; check {ready.name}", *([ready.note] if ready.note else []))
    if searched:
        out.show(f"before that the baseline is searched over {', '.join(searched)}")
    return 0


def plan_table(ready: PreparedCheck) -> Table:
    from rich.table import Table

    from dmltune.report.formatting import parameters

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in ("configuration", "is", "values"):
        grid.add_column(column, no_wrap=column != "values")
    for one in ready.plan.configurations:
        grid.add_row(one.key, ", ".join(one.labels), parameters(dict(one.values)))
    return grid


def say(text: Any) -> None:
    print(text, file=sys.stderr, flush=True)
