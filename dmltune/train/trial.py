"""One trial in its folder: begun or continued, validated, kept.

last/   everything that resuming needs, replaced at every validation
best/   the embedder of the best validation, as it is served (safetensors and JSON)
test.safetensors   what it does on the test classes; only of an order that carries an opening
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dmltune.core import checkpoint, collectives
from dmltune.core.fit import Progress, fit
from dmltune.data.feed import ImageFeed
from dmltune.experiment import Experiment
from dmltune.train.build import build_run, training_images
from dmltune.train.inference import inference_settings
from dmltune.train.measurement import examine
from dmltune.train.orders import Order, TrialReport


def run_trial(
    order: Order, device: torch.device, should_stop: Callable[[], bool] | None = None
) -> Iterator[TrialReport]:
    """Yields a report per validation, each after its checkpoint is on disk. Every rank of a group runs this.

    A checkpoint found in the folder is continued; its report comes again, because whoever asked for it may
    have died. The last report comes after the test classes were measured, where that was ordered.
    """
    experiment = Experiment.from_dict(order.experiment)
    folder = Path(order.folder)
    last = folder / "last"
    first = collectives.rank() == 0
    run = build_run(experiment, order.data_root, device)
    number, busy_s = 0, 0.0
    try:
        if (last / checkpoint.CHECKPOINT).is_file():
            tensors, meta = checkpoint.load(last)
            with checkpoint.reading(last / checkpoint.CHECKPOINT):
                run.restore(tensors, meta["run"])
                report = TrialReport(**meta["report"])
            if report.finished:
                examine(order, device)
            yield report
            if report.finished:
                return
            number, busy_s = report.number + 1, report.metrics["fit_seconds"]
        began = time.perf_counter()
        for progress in fit(run, should_stop):
            if progress.reason == "stopped":
                return
            busy_s += time.perf_counter() - began
            report = _report(number, progress, busy_s)
            if first:
                if progress.improved:
                    _save_best(folder / "best", run, experiment, order, progress)
                tensors, meta = run.state()
                checkpoint.save(last, tensors, {"run": meta, "report": vars(report)})
            if report.finished:
                examine(order, device)
            yield report
            number += 1
            began = time.perf_counter()
    finally:
        if isinstance(run.feed, ImageFeed):
            run.feed.close()


def _report(number: int, progress: Progress, busy_s: float) -> TrialReport:
    """`fit_seconds`: training and validation so far, without checkpoints, reports and waiting."""
    return TrialReport(
        number=number,
        step=progress.step,
        max_steps=progress.max_steps,
        metrics=progress.metrics | {"fit_seconds": round(busy_s, 4)},
        score=progress.score,
        best_score=progress.best_score,
        best_step=progress.best_step,
        finished=progress.finished,
        reason=progress.reason,
    )


def _save_best(folder: Path, run: Any, experiment: Experiment, order: Order, progress: Progress) -> None:
    images, embedder = training_images(experiment, order.data_root), run.objective.embedder
    description = checkpoint.ModelDescription(
        experiment=experiment.to_dict(),
        data=images.fingerprint,
        step=progress.step,
        validation=progress.metrics,
        crop_margin=images.margin,
        normalise=embedder.normalise,
        **inference_settings(experiment, embedder),
    )
    checkpoint.save_model(folder, run.best_weights, description)
