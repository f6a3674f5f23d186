"""`dmltune check`: is the winner of a search better than the baseline, by how much, and is it noise?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, facts_table, new_table, say
from dmltune.cli.parser import (
    Parser,
    add_cluster,
    add_format,
    add_name,
    add_places,
    command_line,
    override,
)
from dmltune.cli.query import add_rerank
from dmltune.cli.worker_options import worker_resources

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from dmltune.check.api import PreparedCheck
    from dmltune.check.plan import CheckPlan
    from dmltune.cli.cost import Workload

SUMMARY = "the reality check of a search: folds, seeds, unseen classes, statistics"
EXAMPLES = """\
  dmltune check demo                            winner, paper's point, baseline: 4 folds × 3 seeds each
  dmltune check birds --repeats 2 --data-root ~/data
  dmltune check birds --top 3 --fair-baseline   the baseline gets a search of its own first
  dmltune check birds --repeats 5               adds two more seeds to an existing check
  dmltune check birds --dry-run                 what would be trained
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("search", metavar="SEARCH", help="the name of a search that has ended")
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        type=override,
        help="changes of all configurations by dotted key: max_steps=2000",
    )
    parser.add_number("--top", "check the K best trials (default: the winner)", default=1, metavar="K")
    parser.add_number("--repeats", "seeds per fold (default: 3); more may follow")
    parser.add_number("--folds", "number of folds (default: all 4 of protocol fair)")
    parser.add_flag("--fair-baseline", "search the baseline first, with as many trials as the method had")
    parser.add_flag("--clustering", "also NMI and F1 of k-means; half a minute a model with 11,316 classes")
    add_rerank(parser)
    add_name(parser, "SEARCH-check", "is continued and extended")
    add_cluster(parser, "training")
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store

    if args.dry_run:
        return show_plan(args, out)
    from dmltune.check.api import check
    from dmltune.cli.boundary import INTERRUPTED
    from dmltune.report.check_table import check_table
    from dmltune.report.search_progress import plain
    from dmltune.report.summary import nearby

    result = check(
        args.search,
        top=args.top,
        repeats=args.repeats,
        folds=args.folds,
        fair_baseline=args.fair_baseline,
        name=args.name,
        overrides=args.overrides,
        clustering=args.clustering,
        rerank=args.rerank or "",
        workers=args.workers,
        concurrent=args.concurrent,
        address=args.address,
        per_worker=worker_resources(args),
        store=Store.at(args.store),
        data_root=args.data_root,
        log=say,
        watch=plain(sys.stderr),
    )
    out.document(result.to_dict())
    if result.stopped:
        out.show("", "stopped before its end; scores on test classes are shown when all are measured.")
        out.show("It continues with", f"  {command_line(args)}")
        return INTERRUPTED
    out.show(*check_table(result.document))
    if result.nothing_new:
        out.show("finished before: nothing was trained, and no test class was read")
    if result.page is not None:
        out.show(f"report: {nearby(result.page)}")
    return 1 if result.document.failed else 0


def show_plan(args: argparse.Namespace, out: Output) -> int:
    from dmltune.check.api import prepare
    from dmltune.check.baseline_search import baseline_space
    from dmltune.cli.cost import estimate, rows_of_all
    from dmltune.cli.dry_run import planned_resources
    from dmltune.report.summary import count
    from dmltune.resources import Locations
    from dmltune.store import Store

    resources, store = planned_resources(args), Store.to_read(args.store)
    prepared = prepare(
        args.search, top=args.top, repeats=args.repeats, folds=args.folds, name=args.name,
        overrides=args.overrides, clustering=args.clustering, rerank=args.rerank or "",
        store=store, data_root=args.data_root,
    )  # fmt: skip
    varies = list(baseline_space(prepared.search.experiment).search) if args.fair_baseline else []
    plan, folder = prepared.plan, store.search_folder(prepared.name)
    members, configurations = plan.members(), plan.configurations
    loads = workloads(plan, folder)
    trained = sum(load.total - load.left for load in loads)
    cost = estimate(loads, resources, Locations(store, args.data_root).absolute_root)
    out.document(
        {
            "name": prepared.name,
            "search": prepared.search.name,
            "protocol": plan.protocol,
            "folds": plan.folds,
            "repeats": plan.repeats,
            "baseline": plan.baseline,
            "baseline_search": varies,
            "configurations": [
                {"key": entry.key, "labels": entry.labels, "values": entry.values, "digest": entry.digest}
                for entry in configurations
            ],
            "members": [member.name for member in members],
            "trained": trained,
            "cost": cost,
        }
    )
    models = f"{count(len(members), 'model')}: {count(len(configurations), 'configuration')}"
    out.show("", plan_table(prepared), "")
    design = f"{count(plan.folds, 'fold')} × {count(plan.repeats, 'seed')}"
    out.show(f"{models} × {design}, protocol {plan.protocol}")
    out.show(f"{trained} of them are trained; the name of the check is {prepared.name}")
    out.show(*([prepared.note] if prepared.note else []))
    out.show("", facts_table(*cost_rows(cost), *rows_of_all(cost, "trainings", True, len(members))))
    if varies:
        out.show(f"before that the baseline is searched over {', '.join(varies)}: as long as the search took")
    return 0


def workloads(plan: CheckPlan, folder: Path) -> list[Workload]:
    """Return the trainings of each configuration, and how many of them are left."""
    from dmltune.cli.cost import Workload
    from dmltune.data import catalog
    from dmltune.train.run_series import stored_result

    loads: dict[str, Workload] = {}
    for member in plan.members():
        name = member.experiment.data.name
        tested = catalog.published(name).get("test", (None, None))[0] or 0
        load = loads.get(member.key, Workload(member.key, member.experiment, 0, 0, tested))
        left = stored_result(folder, member.name) is None
        loads[member.key] = load._replace(left=load.left + left, total=load.total + 1)
    return list(loads.values())


def cost_rows(cost: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a row for every configuration that was measured."""
    from dmltune.cli.cost import short
    from dmltune.report.formatting import clock

    return [
        (
            label,
            f"a model takes at most {clock(each['seconds'])}: {short(each['step'])} a step, "
            f"{short(each['validation'])} a validation of {each['validation_images']:,} images",
        )
        for label, each in cost["measured"].items()
    ]


def plan_table(prepared: PreparedCheck) -> Table:
    from dmltune.report.formatting import parameters

    table = new_table("configuration")
    table.add_column("is", no_wrap=True)
    table.add_column("values")
    for entry in prepared.plan.configurations:
        table.add_row(entry.key, ", ".join(entry.labels), parameters(dict(entry.values)))
    return table
