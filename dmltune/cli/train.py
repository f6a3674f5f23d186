"""`dmltune train`: one training, with a line per validation."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dmltune.cli.output import Output, say
from dmltune.cli.parser import (
    Parser,
    add_address,
    add_experiment,
    add_format,
    add_name,
    add_places,
    command_line,
    overrides_of,
    places_of,
)
from dmltune.cli.worker_options import add_worker_resources, worker_resources
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.cli.experiment_choice import ChosenExperiment
    from dmltune.train.orders import TrialReport

SUMMARY = "train one embedder: the reference point of a space with your changes"
EXAMPLES = """\
  dmltune train glyphs-ccp --name first
  dmltune train glyphs-ccp references=batch optimizer.lr=0.002 --seed 3
  dmltune train cub-lite --data-root ~/data --workers 2
  dmltune train --data ./photos max_steps=100
  dmltune train --from demo --name again --seed 1        the winner's recipe once more
  dmltune train --from demo --all-classes --name shop    on every class, for embed, index and serve
"""


def add_arguments(parser: Parser) -> None:
    add_experiment(parser, "what to train")
    parser.add_argument(
        "--from",
        dest="recipe",
        metavar="NAME",
        help="train the recipe of a search's winner, of a training or of a run, in place of SPACE",
    )
    parser.add_flag(
        "--all-classes",
        "with --from: on every image of both halves, for serving; no class is left to measure on",
    )
    add_places(parser)
    add_name(parser, "space and time")
    parser.add_number("--workers", "processes (default: 1)", default=1)
    add_worker_resources(parser)
    add_address(parser, "this machine alone; one worker trains here")
    parser.add_argument(
        "--trials",
        type=int,
        default=1,
        metavar="1",
        help="a training is one trial; use dmltune search for more",
    )
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli import experiment_choice
    from dmltune.cli.boundary import INTERRUPTED
    from dmltune.cli.recommendation import recommended
    from dmltune.report.summary import warning

    if args.all_classes and args.recipe is None:
        raise UserError("--all-classes needs --from NAME: a search first, on classes that can be compared.")
    if args.trials != 1:
        space = args.space if args.data is None else f"--data {args.data}"
        raise UserError(
            f"a training is one trial; --trials was {args.trials}. For more: dmltune search {space}"
        )
    chosen = from_recipe(args) if args.recipe else experiment_choice.choose_experiment(args)
    experiment_choice.show(chosen)
    protocol = chosen.experiment.objective.protocol
    try:
        with recommended(args, chosen):
            last = train_with(args, chosen)
    except KeyboardInterrupt:
        say(f"\nstopped before its end. It continues with\n  {command_line(args, name=chosen.name)}")
        return INTERRUPTED
    notice = warning(protocol)
    document = {"name": chosen.name} | (vars(last) if last is not None else {}) | chosen.document()
    out.document(document | ({"warning": notice} if notice else {}))
    if last is None or last.failure:
        return 1
    out.show(*closing(chosen.name, last, places_of(args), protocol))
    return 0


def from_recipe(args: argparse.Namespace) -> ChosenExperiment:
    """Return the experiment of a stored model, with the overrides."""
    from dmltune.cli.experiment_choice import ChosenExperiment, default_name, requested_steps
    from dmltune.experiment.loading import parse_overrides
    from dmltune.serving.recipe import recipe
    from dmltune.store import Store

    store, steps = Store.to_read(args.store), requested_steps(args.overrides)
    experiment = recipe(args.recipe, store, args.all_classes, steps)
    if overrides := overrides_of(args):
        experiment = experiment.with_values(parse_overrides(overrides))
    note = ""
    if args.all_classes:
        note = (
            f"every class of {experiment.data.name} trains, for {experiment.max_steps} steps: no class is "
            "left to measure on, and the test ledger says so"
        )
    space = experiment.data.name
    return ChosenExperiment(
        experiment, space, args.name or default_name(space), notes=(note,) if note else ()
    )


def train_with(args: argparse.Namespace, chosen: ChosenExperiment) -> TrialReport | None:
    """Return the last report."""
    from dmltune.store import Store
    from dmltune.train.api import train

    store = Store.at(args.store)
    chosen.write_to(store.search_folder(chosen.name))
    last = None
    for last in train(
        chosen.experiment,
        name=chosen.name,
        space_name=chosen.space_name,
        workers=args.workers,
        store=store,
        data_root=args.data_root,
        address=args.address,
        per_worker=worker_resources(args),
    ):
        print(line(last, chosen.experiment.objective.metric), file=sys.stderr, flush=True)
    return last


def line(report: TrialReport, metric: str) -> str:
    """Return `step 100/600  MAP@R 31.2 %  P@1 45.0 %  loss 0.1234  350 images/s`."""
    from dmltune.report import formatting

    if report.failure:
        return f"step {report.step}/{report.max_steps}  failed: {formatting.first_line(report.failure)}"
    metrics = report.metrics
    parts = [f"step {report.step:>5}/{report.max_steps}"]
    for name in dict.fromkeys((metric, "precision_at_1")):
        if name in metrics:
            parts.append(f"{formatting.metric_name(name)} {formatting.percent(metrics[name]):>5} %")
    if "loss" in metrics:
        parts.append(f"loss {metrics['loss']:.4f}")
    if "images_per_s" in metrics:
        parts.append(f"{metrics['images_per_s']:.0f} images/s")
    return "  ".join(parts) + ("  best so far" if report.best_step == report.step else "")


def closing(name: str, last: TrialReport, places: str, protocol: str) -> list[str]:
    """Return the lines that the command ends with."""
    from dmltune.report import formatting
    from dmltune.report.summary import warning

    notice = warning(protocol)
    if protocol == "all_classes":
        return [
            "",
            f"{name}: trained for {last.step} steps on every class. No class is left to measure on:",
            "the search's check says how good the recipe is.",
            "",
            f"  dmltune index {name} FOLDER{places}",
        ]
    classes = "test" if notice else "validation"
    return [
        "",
        *([notice] if notice else []),
        f"{name}: {formatting.percent(last.best_score)} % on the {classes} classes, at step {last.best_step}",
        "",
        f"  dmltune evaluate {name} --split test{places}  # on {'the same' if notice else 'unseen'} classes",
    ]
