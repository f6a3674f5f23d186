"""XBM: how far embeddings drift while a memory holds them (the *slow drift* that it assumes).

The drift at step t over Δ steps is the mean of ‖f_t(x) − f_{t−Δ}(x)‖² over fixed validation images.

B images, D dimensions, S snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dmltune.core.run import Run
from dmltune.experiment import Experiment
from dmltune.reproduce.drawing import COLOURS, canvas, save
from dmltune.reproduce.figures._data import BIRDS, CUB, GLYPHS
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

IMAGES, STEPS, SNAPSHOTS = 512, 3000, 100
SPANS = (1, 5, 25)  # snapshots between the two weights that are compared


def run(request: FigureRequest) -> FigureResult:
    steps = min(request.experiment().max_steps, STEPS)
    every = max(1, steps // SNAPSHOTS)
    changes = (f"max_steps={steps}", f"validate_every={every}", "patience=null", "references=batch")
    points_SBD = snapshots(request, request.experiment(*changes))
    curves = {span * every: drift(points_SBD, span) for span in SPANS if span < len(points_SBD)}
    rows = []
    for delta, values in curves.items():
        tenth = max(1, len(values) // 10)
        rows.append((delta, float(values[:tenth].mean()), float(values[-tenth:].mean())))
    table = FigureTable("", ("Δ, steps", "drift at the start", "at the end"), rows)
    picture = draw(curves, every, request.label, request.folder / "xbm-drift.png")
    return FigureResult([table], [picture], answers(rows))


def snapshots(request: FigureRequest, experiment: Experiment) -> Tensor:
    """Train, and return the points of the first validation images at every validation, (S, B, D)."""
    points: list[Tensor] = []
    fixed: list[Tensor] = []
    for run, progress in request.fit(experiment):
        if progress.finished:  # it comes with the best weights in place
            continue
        fixed = fixed or first_images(run)
        with torch.inference_mode():
            embedder = run.objective.embedder.eval()
            points.append(torch.cat([embedder(images.to(run.device)).cpu() for images in fixed]))
    return torch.stack(points)


def first_images(run: Run) -> list[Tensor]:
    """Return batches of the first validation images, 512 or a little more."""
    batches: list[Tensor] = []
    for images, _ in run.feed.validation():
        batches.append(images)
        if sum(map(len, batches)) >= IMAGES:
            break
    return batches


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
