"""What a search would do: everything is checked and nothing is started (`dmltune search … --dry-run`)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.experiment import Experiment, Parameter


def show_plan(chosen: ChosenExperiment, args: argparse.Namespace, out: Output) -> int:
    experiment = chosen.experiment
    plan = document(experiment, chosen.space_name, args) | chosen.document()
    out.document(plan)
    out.show(*table(experiment, plan))
    return 0


def document(experiment: Experiment, space_name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Builds trial 0 and the baseline with their data, so that what is missing shows now."""
    from dmltune.store import Store
    from dmltune.train.build import training_images, validate_experiment

    validate_experiment(experiment, args.data_root, args.workers)
    images = training_images(experiment, str(args.data_root) if args.data_root else None)
    baseline = experiment.baseline_experiment()
    return {
        "name": args.name,
        "space": space_name,
        "trials": args.trials or experiment.trials,
        "time": args.time,
        "workers": args.workers,
        "concurrent": args.concurrent,
        "isolation": args.isolation,
        "store": Store.at(args.store).root,
        "data": {
            "name": images.name,
            "path": experiment.data.path,
            "images": len(images.labels_N),
            "classes": len(images.class_names),
            "fingerprint": images.fingerprint,
        },
        "reference_point": dict(experiment.space.reference_point),
        "baseline": None if baseline is None else experiment.reference_experiment().differences(baseline),
        "experiment": experiment.to_dict(),
    }


def table(experiment: Experiment, plan: dict[str, Any]) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    def rows(pairs: list[tuple[str, str]]) -> Table:
        grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in pairs:
            grid.add_row(name, value)
        return grid

    found = plan["data"]
    limit = f", ends after {formatting.clock(plan['time'])}" if plan["time"] else ""
    objective = experiment.objective
    facts = [
        ("search", f"{plan['name'] or 'a new name'} · {plan['space']}   {experiment.about}"),
        ("trials", f"{plan['trials']} of at most {experiment.max_steps} steps{limit}"),
        ("sampler", f"{experiment.sampler.name}, scheduler {experiment.scheduler.name}"),
        (
            "objective",
            f"{formatting.metric_name(objective.metric)} ({objective.mode}), {objective.protocol} protocol",
        ),
        (
            "data",
            f"{found['path'] or found['name']}: {found['images']:,} images of {found['classes']:,} classes",
        ),
        ("store", str(plan["store"])),
    ]
    varies = [(parameter.name, describe(parameter)) for parameter in experiment.space.parameters]
    varies += [("require", expression.text) for expression in experiment.space.require]
    baseline = plan["baseline"]
    first = [
        ("trial 0", formatting.parameters(plan["reference_point"])),
        ("baseline", "none" if baseline is None else ", ".join(baseline)),
    ]
    heading = Text("what varies", style="bold")
    from dmltune.report.summary import warning

    loud = [Text(seen, style="bold red"), ""] if (seen := warning(objective.protocol)) else []
    return [
        *loud,
        rows(facts),
        "",
        heading,
        rows(varies),
        "",
        rows(first),
        "",
        "checked; nothing was started",
    ]


def describe(parameter: Parameter) -> str:
    """`float 1e-5 … 0.1, logarithmic`."""
    if parameter.kind == "choice":
        text = "one of " + ", ".join(str(choice) for choice in parameter.choices)
    else:
        text = f"{parameter.kind} {formatting.value(parameter.low)} … {formatting.value(parameter.high)}"
    when = ", ".join(f"{key} is {' or '.join(map(str, wanted))}" for key, wanted in parameter.when.items())
    return text + (", logarithmic" if parameter.log else "") + (f", when {when}" if when else "")
