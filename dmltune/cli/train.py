"""`dmltune train`: one training run, followed line by line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_experiment, add_format, add_places, at_least, overrides_of

if TYPE_CHECKING:
    from dmltune.core.fit import Progress

SUMMARY = "train one embedder: a space's reference point with your changes"
EXAMPLES = """\
  dmltune train glyphs-ccp --name first
  dmltune train glyphs-ccp references=batch optimizer.lr=0.002 --seed 3
  dmltune train cub-lite --data-root ~/data --workers 2
"""


def add_arguments(parser: Parser) -> None:
    add_experiment(parser, "what to train")
    add_places(parser)
    parser.add_argument("--name", help="the run's name (default: SPACE-train); an existing one is resumed")
    parser.add_argument("--workers", type=at_least(1), default=1, metavar="N", help="processes (default: 1)")
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.search import name_of, places
    from dmltune.experiment import load_experiment
    from dmltune.store import Store
    from dmltune.train import train

    experiment = load_experiment(args.space, overrides_of(args))
    space_name = name_of(args.space)
    name = args.name or f"{space_name}-train"
    last = None
    for progress in train(
        experiment,
        name=name,
        workers=args.workers,
        store=Store.at(args.store),
        data_root=args.data_root,
        space_name=space_name,
    ):
        print(line(progress), file=sys.stderr, flush=True)
        last = progress
    out.document(document(name, last))
    if last is not None:
        out.show(*closing(name, last, places(args)))
    return 0


def line(progress: Progress) -> str:
    """`step 100/600  MAP@R 31.2 %  P@1 45.0 %  loss 0.1234  350 images/s`."""
    from dmltune.report import words

    metrics = progress.metrics
    parts = [f"step {progress.step:>5}/{progress.max_steps}"]
    shares = {name: metrics[name] for name in ("map_at_r", "precision_at_1") if name in metrics}
    parts += [f"{words.metric_name(name)} {words.percent(share):>5} %" for name, share in shares.items()]
    if "loss" in metrics:
        parts.append(f"loss {metrics['loss']:.4f}")
    if "images_per_s" in metrics:
        parts.append(f"{metrics['images_per_s']:.0f} images/s")
    return "  ".join(parts) + ("  best so far" if progress.improved else "")


def document(name: str, last: Progress | None) -> dict[str, Any]:
    import dataclasses

    return {"name": name, **({} if last is None else dataclasses.asdict(last))}


def closing(name: str, last: Progress, places: str) -> list[str]:
    from dmltune.report import words

    return [
        "",
        f"{name}: {words.percent(last.best_score)} % on the validation classes, at step {last.best_step}",
        "",
        f"  dmltune evaluate {name} --split test{places}  # on unseen classes",
    ]
