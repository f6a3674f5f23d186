"""SFT, Fig. 4: does the transform make classes alike in size, and how do distances spread?

(a) The divergence of each validation class (trace of its scatter, eq. 11) without and with the transform, and
its standard deviation over the classes. (b) Distances of pairs of one class and of two, before training and
after both.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from dmltune.core.analysis import class_divergence, distance_histograms
from dmltune.core.retrieval import retrieval_metrics
from dmltune.report.figures import shares, stairs
from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, save
from dmltune.reproduce.figures import _sft_data
from dmltune.reproduce.figures._points import points_of, untrained
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

METHODS = {"baseline": _sft_data.BASELINE, "SFT": _sft_data.SFT}
BEFORE = "before training"
MOST_BARS = 60  # classes in part (a); of more, every second or third is drawn


def run(request: FigureRequest) -> FigureResult:
    experiments = {name: request.experiment(*changes) for name, changes in METHODS.items()}
    cells = request.train({f"{name.lower()}-seed0": experiment for name, experiment in experiments.items()})
    start = experiments["baseline"]
    points = {BEFORE: points_of(request, start, untrained(start))}
    for name, experiment in experiments.items():
        if cell := cells.get(f"{name.lower()}-seed0"):
            points[name] = points_of(request, experiment, request.embedder(cell))
    divergences = {name: class_divergence(*each).double() for name, each in points.items()}
    histograms = {name: distance_histograms(*each) for name, each in points.items()}
    rows = [
        (
            name,
            float(divergences[name].mean()),
            float(divergences[name].std(correction=0)),
            float(divergences[name].std(correction=0) / divergences[name].mean()),
            overlap(*histograms[name][1:]),
            retrieval_metrics(*points[name])["precision_at_1"],
        )
        for name in points
    ]
    columns = ("model", "divergence", "sd over classes", "sd / mean", "overlap of distances %", "R@1 %")
    picture = draw(divergences, histograms, request)
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(rows))


def overlap(positive: Tensor, negative: Tensor) -> float:
    """Return the common area of the two histograms, each as shares of its own pairs."""
    pairs = zip(shares(positive.tolist()), shares(negative.tolist()), strict=True)
    return sum(min(own, other) for own, other in pairs)


def answers(rows: list[tuple[str, float, float, float, float, float]]) -> list[str]:
    by_name = {row[0]: row for row in rows}
    lines = []
    if {"baseline", "SFT"} <= set(by_name):
        base, sft = by_name["baseline"], by_name["SFT"]
        lines = [
            f"With the transform the standard deviation of the divergence is {sft[2]:.3f} instead of "
            f"{base[2]:.3f}, {sft[3]:.2f} instead of {base[3]:.2f} of its mean.",
            f"The histograms of distances overlap by {100 * sft[4]:.1f} % instead of {100 * base[4]:.1f} %.",
        ]
    return [*lines, "The text: with the transform divergences are more balanced, and the overlap is smaller."]


def draw(
    divergences: dict[str, Tensor],
    histograms: dict[str, tuple[Tensor, Tensor, Tensor]],
    request: FigureRequest,
) -> Path:
    figure, axes = canvas(2, 2)
    panels = [axis for row in axes for axis in row]
    trained = {name: values for name, values in divergences.items() if name != BEFORE}
    first = next(iter(trained.values()))
    order_C = first.argsort()[:: 1 + (len(first) - 1) // MOST_BARS]
    axis = panels[0]
    for (name, values_C), colour, shift in zip(trained.items(), (BLUE, ORANGE), (-0.2, 0.2), strict=False):
        spread = float(values_C.std(correction=0))
        places = [place + shift for place in range(len(order_C))]
        axis.bar(places, values_C[order_C].tolist(), 0.4, color=colour, label=f"{name}, sd {spread:.3f}")
    axis.axhline(float(first.mean()), color=GREY, ls="--", lw=1, label="mean of the baseline")
    axis.set_xlabel("classes in the order of the baseline")
    axis.set_ylabel("divergence")
    axis.set_title("(a)", fontsize=9)
    axis.legend(fontsize=7)
    for axis, (name, (edges, positive, negative)) in zip(panels[1:], histograms.items(), strict=False):
        stairs(axis, edges.tolist(), positive.tolist(), negative.tolist())
        axis.set_xlabel("distance")
        axis.set_ylabel("share of pairs")
        axis.set_title(f"(b) {name}, overlap {100 * overlap(positive, negative):.1f} %", fontsize=9)
        axis.legend(fontsize=7)
    return save(figure, request.folder / "sft-fig4.png", f"SFT, Fig. 4 on {request.label}")


STUDY = FigureStudy(
    about="Divergence of the classes and distances of pairs, without and with the transform",
    source="Spherical Feature Transform, Fig. 4",
    run=run,
    data={"cars": _sft_data.CARS, "cub": _sft_data.CUB, "birds": _sft_data.BIRDS, "glyphs": _sft_data.GLYPHS},
    trainings="sft-shapes",
)
