"""`dmltune train`: one training run, followed line by line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_experiment, add_format, add_places, at_least
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.train.orders import TrialReport

SUMMARY = "train one embedder: a space's reference point with your changes"
EXAMPLES = """\
  dmltune train glyphs-ccp --name first
  dmltune train glyphs-ccp references=batch optimizer.lr=0.002 --seed 3
  dmltune train cub-lite --data-root ~/data --workers 2
  dmltune train --data ./photos max_steps=100
"""


def add_arguments(parser: Parser) -> None:
    add_experiment(parser, "what to train")
    add_places(parser)
    parser.add_argument("--name", help="the run's name (default: space and time); an existing one is resumed")
    parser.add_argument("--workers", type=at_least(1), default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--address", help="a Ray cluster for several workers (default: this machine alone)")
    parser.add_argument(
        "--trials",
        type=int,
        default=1,
        metavar="1",
        help="a training is one trial; for more say dmltune search",
    )
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli import experiment_choice
    from dmltune.cli.search import places
    from dmltune.cli.tracked_training import tracked
    from dmltune.report.summary import warning
    from dmltune.store import Store
    from dmltune.train.api import train

    if args.trials != 1:
        about = args.space if args.data is None else f"--data {args.data}"
        raise UserError(
            f"a training is one trial; --trials was {args.trials}. For more: dmltune search {about}"
        )
    chosen = experiment_choice.choose_experiment(args)
    experiment, name = chosen.experiment, chosen.name
    experiment_choice.show(chosen)
    store = Store.at(args.store)
    chosen.keep(store.search_folder(name))
    last = None
    reports = train(
        experiment,
        name=name,
        workers=args.workers,
        store=store,
        data_root=args.data_root,
        address=args.address,
    )
    for report in tracked(reports, experiment, name, chosen.space_name, store):
        print(line(report, experiment.objective.metric), file=sys.stderr, flush=True)
        last = report
    seen = warning(experiment.objective.protocol)
    document = {"name": name} | (vars(last) if last is not None else {}) | chosen.document()
    out.document(document | ({"warning": seen} if seen else {}))
    if last is None or last.failure:
        return 1
    out.show(*closing(name, last, places(args), experiment.objective.protocol))
    return 0


def line(report: TrialReport, metric: str) -> str:
    """`step 100/600  MAP@R 31.2 %  P@1 45.0 %  loss 0.1234  350 images/s`."""
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
    from dmltune.report import formatting
    from dmltune.report.summary import warning

    seen = warning(protocol)
    classes = "test" if seen else "validation"
    return [
        "",
        *([seen] if seen else []),
        f"{name}: {formatting.percent(last.best_score)} % on the {classes} classes, at step {last.best_step}",
        "",
        f"  dmltune evaluate {name} --split test{places}  # on {'the same' if seen else 'unseen'} classes",
    ]
