"""`dmltune search … --dry-run`: everything is validated, and a few steps are measured; nothing is started."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, facts_table
from dmltune.cli.worker_options import worker_resources
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.experiment import Experiment, Parameter
    from dmltune.train.ray_session import ResourcePlan


def planned_resources(args: argparse.Namespace) -> ResourcePlan:
    """Return how wide the trainings are; a UserError when the cluster does not answer, or for too few cores.

    Of a cluster nothing is known but what the user says.
    """
    import torch

    from dmltune.resources import Resources
    from dmltune.train.cluster_address import require_cluster
    from dmltune.train.ray_session import RaySession, ResourcePlan, plan_resources, usable_cores

    per_worker = worker_resources(args)
    resources = Resources(args.workers or 1, args.concurrent, args.address, per_worker=per_worker)
    address = args.address or os.environ.get("RAY_ADDRESS") or None
    require_cluster(address)
    if address is not None:
        request = per_worker.request(torch.cuda.is_available())
        return ResourcePlan(resources.concurrent or 1, resources.workers, 1, "GPU" in request, request)
    here = RaySession(True, "", Path(), usable_cores(), torch.cuda.device_count())
    return plan_resources(here, resources)


def show_plan(chosen: ChosenExperiment, args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.cost import Workload, estimate
    from dmltune.resources import Locations
    from dmltune.store import Store

    resources = planned_resources(args)
    plan = document(chosen, args)
    trial = Workload("trial 0", chosen.experiment.reference_experiment(), plan["trials"], plan["trials"])
    locations = Locations(Store.to_read(args.store), args.data_root)
    plan["cost"] = estimate([trial], resources, locations.absolute_root)
    out.document(plan | chosen.document())
    out.show(*tables(chosen.experiment, plan))
    return 0


def document(chosen: ChosenExperiment, args: argparse.Namespace) -> dict[str, Any]:
    """Return the plan. Trial 0 and the baseline are built with their data, which shows what is missing."""
    from dmltune.resources import Locations
    from dmltune.search.api import make_plan
    from dmltune.search.earlier import points_of
    from dmltune.search.limits import SpendingLimits
    from dmltune.store import Store
    from dmltune.train.build import training_images, validate_experiment
    from dmltune.train.name_claim import require_same

    experiment = chosen.experiment
    trials = make_plan(experiment, args.trials, SpendingLimits(args.time, args.cost)).total
    locations = Locations(Store.to_read(args.store), args.data_root)
    if args.start_from:
        points_of(locations.store, args.start_from, experiment.space)
    fingerprint = validate_experiment(experiment, locations, args.workers, planning=True)
    require_same(locations.store, chosen.name, experiment, fingerprint)
    images = training_images(experiment, locations.absolute_root)
    baseline = experiment.baseline_experiment()
    return {
        "name": args.name,
        "space": chosen.space_name,
        "trials": trials,
        "time": args.time,
        "workers": args.workers,
        "concurrent": args.concurrent,
        "isolation": args.isolation,
        "store": locations.store.place,
        "data": {
            "name": images.name,
            "path": experiment.data.path,
            "images": len(images.labels_N),
            "classes": len(images.class_names),
            "fingerprint": images.fingerprint,
            "skipped": list(images.skipped),
        },
        "reference_point": dict(experiment.space.reference_point),
        "baseline": None if baseline is None else experiment.reference_experiment().differences(baseline),
        "experiment": experiment.to_dict(),
    }


def tables(experiment: Experiment, plan: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    from dmltune.cli.cost import plural, rows_of_all, rows_of_one
    from dmltune.report.summary import warning
    from dmltune.search.stored_models import STORED_BEST

    data, objective, baseline = plan["data"], experiment.objective, plan["baseline"]
    limit = f", ends after {formatting.clock(plan['time'])}" if plan["time"] else ""
    metric = formatting.metric_name(objective.metric)
    named = ", ".join(formatting.COSTS[name][1] for name in objective.against)
    against = f" against {named}" if named else ""
    skipped = f"; {len(data['skipped']):,} listed images are skipped" if data["skipped"] else ""
    size = f"{data['images']:,} images of {data['classes']:,} classes{skipped}"
    facts = facts_table(
        ("search", f"{plan['name'] or 'a new name'} · {plan['space']}   {experiment.about}"),
        ("trials", f"{plan['trials']} of at most {experiment.max_steps} steps{limit}"),
        ("sampler", f"{experiment.sampler.name}, scheduler {experiment.scheduler.name}"),
        *fidelity(experiment),
        ("objective", f"{metric} ({objective.mode}){against}, {objective.protocol} protocol"),
        ("data", f"{data['path'] or data['name']}: {size}"),
        ("store", str(plan["store"])),
    )
    varies = [(parameter.name, describe(parameter)) for parameter in experiment.space.parameters]
    varies += [("require", expression.text) for expression in experiment.space.require]
    varies += [*balance(experiment), *presets_of_choices(experiment)]
    first = facts_table(
        ("trial 0", formatting.parameters(plan["reference_point"])),
        ("baseline", "none" if baseline is None else ", ".join(baseline)),
    )
    notice = warning(objective.protocol)
    loud = [Text(notice, style="bold red"), ""] if notice else []
    heading = Text("what varies", style="bold")
    cost, models = plan["cost"], min(plan["trials"], STORED_BEST + 2)
    costs = rows_of_one(cost["measured"]["trial 0"], cost["workers"], "a trial")
    costs += rows_of_all(cost, plural(plan["trials"], "trial"), True, models)
    return [
        *loud, facts, "", heading, facts_table(*varies), "", first,
        "", Text("what it costs here", style="bold"), facts_table(*costs),
        "", "validated and measured; nothing was started",
    ]  # fmt: skip


def fidelity(experiment: Experiment) -> list[tuple[str, str]]:
    """Return the settings of cheap trials, and when they are used."""
    from dmltune.search.budget import fidelity_of

    if (chosen := fidelity_of(experiment)) is None:
        return []
    cost = f"{100 * chosen.cost:.0f} % of a full trial"
    gate = f"if {chosen.trials} points show a rank correlation of {chosen.threshold:g}"
    return [("fidelity", f"{formatting.parameters(chosen.settings)}, {cost}, {gate}")]


def balance(experiment: Experiment) -> list[tuple[str, str]]:
    """Return how trials are shared among the choices of the balanced key."""
    if (key := experiment.balanced) is None:
        return []
    count = len(experiment.space[key].choices)
    first = "the first of each with the settings of its presets"
    return [("balanced", f"trials in turn for the {count} choices of {key}, {first}")]


def presets_of_choices(experiment: Experiment) -> list[tuple[str, str]]:
    """Return what each choice of a component changes outside of its own parameters."""
    lines: dict[str, list[str]] = {}
    for parameter in experiment.space.parameters:
        section, _, key = parameter.name.partition(".")
        for choice in parameter.choices if key == "name" else ():
            settings = experiment.presets.get(section, {}).get(choice, {})
            brought = {key: value for key, value in settings.items() if isinstance(value, dict)}
            if brought:
                lines.setdefault(formatting.parameters(formatting.flat(brought)), []).append(choice)
    return [(f"with {', '.join(choices)}", text) for text, choices in lines.items()]


def describe(parameter: Parameter) -> str:
    """Return `float 1e-5 … 0.1, logarithmic`."""
    if parameter.kind == "choice":
        text = "one of " + ", ".join(str(choice) for choice in parameter.choices)
    else:
        text = f"{parameter.kind} {formatting.value(parameter.low)} … {formatting.value(parameter.high)}"
    when = ", ".join(f"{key} is {' or '.join(map(str, values))}" for key, values in parameter.when.items())
    return text + (", logarithmic" if parameter.log else "") + (f", when {when}" if when else "")
