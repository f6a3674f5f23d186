"""`dmltune reproduce … --dry-run`: the trainings of a figure or table, which are done, and the cost."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, facts_table
from dmltune.errors import UserError, UserErrors

if TYPE_CHECKING:
    from pathlib import Path

    from dmltune.check.plan import CheckPlan
    from dmltune.cli.cost import Workload
    from dmltune.experiment import Experiment
    from dmltune.reproduce.study_run import StudyOptions
    from dmltune.reproduce.table_studies import TableSelection
    from dmltune.resources import Locations


def plan_figure(args: argparse.Namespace, options: StudyOptions, locations: Locations, out: Output) -> int:
    """Show the trainings that a figure begins with."""
    from dmltune.reproduce.study_run import planned_cells

    study, cells = planned_cells(args.study, options, locations)
    name = options.name or study.trainings or args.study
    loads = of_cells(cells, locations.store.search_folder(name))
    return shown(args, {args.study: loads}, {}, locations, out)


def plan_table(args: argparse.Namespace, selection: TableSelection, locations: Locations, out: Output) -> int:
    """Show the trainings of `--run`, study by study, and why a study cannot run here."""
    from dmltune.check.plan import prepare_check
    from dmltune.cli.check import workloads
    from dmltune.reproduce.table_studies import configurations, request_of
    from dmltune.train.setup import require_setup

    studies: dict[str, list[Workload]] = {}
    refused: dict[str, str] = {}
    for study in selection.studies():
        chosen = configurations(selection, study, args.overrides)
        request = request_of(selection, study, chosen, args.repeats, args.folds)
        try:
            require_setup(chosen[0].experiment.fixed(), locations)
            plan: CheckPlan = prepare_check(request, locations).plan
        except UserError as error:
            refused[study.name] = str(error)
            continue
        studies[study.name] = workloads(plan, locations.store.search_folder(study.name))
    return shown(args, studies, refused, locations, out)


def of_cells(cells: Mapping[str, Experiment], folder: Path) -> list[Workload]:
    """Return one workload for all seeds of a training."""
    from dmltune.check.configurations import digest
    from dmltune.cli.cost import Workload
    from dmltune.train.run_series import stored_result

    loads: dict[str, Workload] = {}
    for key, experiment in cells.items():
        load = loads.setdefault(digest(experiment), Workload(key, experiment, 0, 0))
        left = stored_result(folder, key) is None
        loads[digest(experiment)] = load._replace(left=load.left + left, total=load.total + 1)
    return list(loads.values())


def shown(
    args: argparse.Namespace,
    studies: Mapping[str, list[Workload]],
    refused: Mapping[str, str],
    locations: Locations,
    out: Output,
) -> int:
    """Show a line for each study and the cost of all together. It is a UserError when none can run."""
    from dmltune.cli.check import cost_rows
    from dmltune.cli.cost import estimate, plural, rows_of_all
    from dmltune.cli.dry_run import planned_resources

    if refused and not studies:
        raise UserErrors([f"{name} cannot run here: {reason}" for name, reason in refused.items()])
    loads = named_apart(studies)
    cost: dict[str, Any] | None = None
    if any(load.total for load in loads):
        cost = estimate(loads, planned_resources(args), locations.absolute_root)
    counts = {
        name: {"trainings": sum(load.total for load in own), "left": sum(load.left for load in own)}
        for name, own in studies.items()
    }
    out.document({"study": args.study, "studies": counts, "refused": refused, "cost": cost})
    for name, count in counts.items():
        begins = "begins with" if name == args.study else "needs"
        done = count["trainings"] - count["left"]
        out.show(f"{name} {begins} {plural(count['trainings'], 'training')}, {done} of them done")
    out.show(*(f"{name} cannot run here: {reason}" for name, reason in refused.items()))
    if cost is None:
        out.show("nothing has to be trained")
        return 0
    total = cost["trainings"]
    out.show("", facts_table(*cost_rows(cost), *rows_of_all(cost, plural(total, "training"), True, total)))
    out.show("", "measured; nothing was started")
    return 0


def named_apart(studies: Mapping[str, Iterable[Workload]]) -> list[Workload]:
    """Return all workloads, with the study in the label where there are several."""
    several = len(studies) > 1
    return [
        load._replace(label=f"{name}: {load.label}") if several else load
        for name, own in studies.items()
        for load in own
    ]
