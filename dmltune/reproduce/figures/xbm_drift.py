"""XBM: how far embeddings drift while a memory holds them (the *slow drift* that it assumes).

The drift at step t over Δ steps is the mean of ‖f_t(x) − f_{t−Δ}(x)‖² over fixed validation images. Trained
in this process, because the weights of every few steps are needed; the same command does it again.

B images, D dimensions, S snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from dmltune.core.fit import fit
from dmltune.core.run import BatchSource, Run
from dmltune.core.threads import torch_threads
from dmltune.data.feed import Batch, PoolBatch
from dmltune.reproduce.drawing import COLOURS, canvas, save
from dmltune.reproduce.figures._data import BIRDS, CUB, GLYPHS
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable
from dmltune.train.build import build_run
from dmltune.train.ray_session import threads_of, usable_cores

IMAGES, STEPS, SNAPSHOTS = 512, 3000, 100
SPANS = (1, 5, 25)  # snapshots between the two weights that are compared


class FewValidated:
    """The feed of a training whose validation is a fixed, small set of images."""

    def __init__(self, feed: BatchSource, count: int) -> None:
        self._feed = feed
        self.fixed: list[Batch] = []
        for images, labels in feed.validation():
            left = count - sum(len(batch) for _, batch in self.fixed)
            if left <= 0:
                break
            self.fixed.append((images[:left], labels[:left]))

    @property
    def num_classes(self) -> int:
        return self._feed.num_classes

    @property
    def queries_N(self) -> None:
        """Each validation image is query and gallery."""

    def batch(self, step: int) -> Batch:
        return self._feed.batch(step)

    def validation(self) -> Iterator[Batch]:
        return iter(self.fixed)

    def pool(self, per_class: int, round: int) -> Iterator[PoolBatch]:
        return self._feed.pool(per_class, round)


def run(request: FigureRequest) -> FigureResult:
    most = request.experiment().max_steps
    steps = min(most, STEPS)
    every = max(1, steps // SNAPSHOTS)
    changes = (f"max_steps={steps}", f"validate_every={every}", "patience=null", "references=batch")
    experiment = request.experiment(*changes)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    request.log(f"{experiment.max_steps} steps in this process, a snapshot every {every}")
    with torch_threads(threads_of(usable_cores())):
        run = build_run(experiment, request.locations.absolute_root, device)
        points_SBD = snapshots(run)
        if hasattr(run.feed, "close"):
            run.feed.close()
    curves = {span * every: drift(points_SBD, span) for span in SPANS if span < len(points_SBD)}
    rows = []
    for delta, values in curves.items():
        tenth = max(1, len(values) // 10)
        rows.append((delta, float(values[:tenth].mean()), float(values[-tenth:].mean())))
    table = FigureTable("", ("Δ, steps", "drift at the start", "at the end"), rows)
    picture = draw(curves, every, request.label, request.folder / "xbm-drift.png")
    return FigureResult([table], [picture], answers(rows))


def snapshots(run: Run) -> Tensor:
    """Train, and return the points of the fixed images at every validation, (S, B, D)."""
    feed, run.feed = run.feed, FewValidated(run.feed, IMAGES)
    points = []
    for progress in fit(run):
        if not progress.finished:  # the last one comes with the best weights in place
            with torch.no_grad():
                embedder = run.objective.embedder.eval()
                parts = [embedder(images.to(run.device)).cpu() for images, _ in run.feed.validation()]
            points.append(torch.cat(parts))
    run.feed = feed
    return torch.stack(points)


def drift(points_SBD: Tensor, span: int) -> Tensor:
    """Return (S − span,) the mean of ‖f_t − f_{t−span}‖² over the images."""
    return (points_SBD[span:] - points_SBD[:-span]).double().square().sum(-1).mean(-1)


def answers(rows: list[tuple[int, float, float]]) -> list[str]:
    lines = [
        f"Over {delta} steps the squared distance is {early:.3f} at the start and {late:.3f} at the end."
        for delta, early, late in rows
    ]
    return [
        *lines,
        "The text: after a warm-up (1,000 steps) embeddings drift slowly, so a memory stays valid.",
    ]


def draw(curves: Mapping[int, Tensor], every: int, label: str, path: Path) -> Path:
    figure, axes = canvas(1, width=5.0)
    axis = axes[0][0]
    for (delta, values), colour in zip(curves.items(), COLOURS, strict=False):
        steps = [delta + every * place for place in range(len(values))]
        axis.plot(steps, values.tolist(), color=colour, lw=1.4, label=f"Δ = {delta} steps")
    axis.set_yscale("log")
    axis.set_xlabel("step t")
    axis.set_ylabel("mean of ‖f(t) − f(t − Δ)‖²")
    axis.legend(fontsize=9)
    return save(figure, path, f"XBM: drift of the embeddings, on {label}")


STUDY = FigureStudy(
    about="How far embeddings drift over Δ steps, which the cross-batch memory assumes to be little",
    source="thesis, §3.3.2.1 (XBM, slow drift)",
    run=run,
    data={"cub": CUB, "birds": BIRDS, "glyphs": GLYPHS},
)
