"""One trial in its folder: begun or continued, validated, stored.

last/   everything that resuming needs, replaced at every validation
images/ validation queries with their neighbours, a picture for each validation
best/   the embedder of the best validation, as it is served (safetensors and JSON)
test.safetensors   its figures on the test classes; only of an order that carries an opening
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dmltune.core import checkpoint, collectives
from dmltune.core.fit import fit
from dmltune.core.run import Progress, Run
from dmltune.data.feed import ImageFeed
from dmltune.experiment import Experiment
from dmltune.train.build import build_run, training_images
from dmltune.train.gallery import draw_gallery
from dmltune.train.inference import inference_settings
from dmltune.train.measurement import measure_test
from dmltune.train.model_costs import model_costs
from dmltune.train.orders import Order, TrialReport
from dmltune.train.system_metrics import system_metrics


def run_trial(
    order: Order,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
    at_step: Callable[[int], None] = lambda step: None,
) -> Iterator[TrialReport]:
    """Yield a report per validation, each after its checkpoint is on disk. Every rank of a group runs this.

    A checkpoint in the folder is continued. Its report comes again, because its reader may have died, and the
    earlier ones after `order.known_step`. The last report comes after the test classes were measured, where
    the order carries an opening. `at_step` is called between steps, where `should_stop` is asked.
    """
    experiment = Experiment.from_validated(order.experiment)
    folder = Path(order.folder)
    last = folder / "last"
    collectives.set_timeout(experiment.device.timeout_s)
    run = build_run(experiment, order.data_root, device)
    number, busy_s, costs = 0, 0.0, ("", dict[str, float]())
    earlier: list[dict[str, Any]] = []
    try:
        if (last / checkpoint.CHECKPOINT).is_file():
            report, earlier = _restore(run, last)
            if report.finished:
                measure_test(order, device)
            yield from (TrialReport(**each) for each in earlier if each["step"] > order.known_step)
            yield report
            if report.finished:
                return
            earlier.append(report.to_dict())
            number, busy_s = report.number + 1, report.metrics["fit_seconds"]
            costs = report.architecture, report.costs
        if order.known_costs is not None and not costs[0] and collectives.rank() == 0:
            costs = model_costs(experiment, run.objective.embedder, device, order.known_costs)

        def between_steps() -> bool:
            at_step(run.step)
            return should_stop()

        began = time.perf_counter()
        for progress in fit(run, between_steps, order.untrained):
            if progress.reason == "stopped":
                return
            busy_s += time.perf_counter() - began
            report = TrialReport.of(number, progress, busy_s, costs, system_metrics())
            if collectives.rank() == 0:
                if progress.improved:
                    _save_best(folder / "best", run, experiment, order, progress)
                if run.examples is not None and isinstance(run.feed, ImageFeed):
                    draw_gallery(run.examples, run.feed, folder, progress.step)
                _save_last(last, run, report, earlier)
                earlier.append(report.to_dict())
            if report.finished:
                measure_test(order, device)
            yield report
            number += 1
            began = time.perf_counter()
    finally:
        if isinstance(run.feed, ImageFeed):
            run.feed.close()


def _restore(run: Run, last: Path) -> tuple[TrialReport, list[dict[str, Any]]]:
    """Continue from the checkpoint; return its report, and the earlier ones as trees."""
    tensors, meta = checkpoint.load(last)
    with checkpoint.reading(last / checkpoint.CHECKPOINT):
        run.restore(tensors, meta["run"])
        earlier = [TrialReport(**each).to_dict() for each in meta.get("earlier", [])]
        return TrialReport(**meta["report"]), earlier


def _save_last(last: Path, run: Run, report: TrialReport, earlier: list[dict[str, Any]]) -> None:
    tensors, meta = run.state()
    checkpoint.save(last, tensors, {"run": meta, "report": report.to_dict(), "earlier": earlier})


def _save_best(folder: Path, run: Run, experiment: Experiment, order: Order, progress: Progress) -> None:
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
