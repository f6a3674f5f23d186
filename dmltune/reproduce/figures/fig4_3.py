"""Fig. 4.3: the convex hulls of the active prototypes of each class, which overlap under average pooling."""

from __future__ import annotations

from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.figures._hulls import (
    active_prototypes,
    draw_hulls,
    in_foreign_hulls,
    overlapping_pairs,
)
from dmltune.reproduce.figures._local_features import ACTIVE, DATA, SHARED, trained_features
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable


def run(request: FigureRequest) -> FigureResult:
    local = trained_features(request)
    active_CM = local.mass_CM() >= ACTIVE
    rows = [
        (name, len(own), int((active_CM[label] & (active_CM.sum(0) > 1)).sum()))
        for label, (name, own) in enumerate(zip(local.names, active_prototypes(local), strict=True))
    ]
    table = FigureTable("", ("class", "active prototypes", "of them shared"), rows)
    pairs, of = overlapping_pairs(local)
    foreign = in_foreign_hulls(local)
    figure, axes = canvas(1, width=5.6, height=5.2)
    draw_hulls(axes[0][0], local, f"{pairs} of {of} pairs of class hulls overlap")
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    picture = save(figure, request.folder / "fig4.3.png", f"Fig. 4.3 on {request.label}")
    answer = (
        f"{pairs} of {of} pairs of class hulls overlap, because "
        f"{int((active_CM.sum(0) > 1).sum())} of {int(active_CM.any(0).sum())} active prototypes are active "
        f"for more than one class; {100 * foreign:.0f} % of the images lie in the hull of another class's "
        "images. The text: hulls overlap due to shared prototypes."
    )
    return FigureResult([table], [picture], [answer])


STUDY = FigureStudy(
    about="Hulls of the prototypes that are active for a class: they overlap under average pooling",
    source="thesis, Fig. 4.3",
    run=run,
    data=DATA,
    trainings=SHARED,
)
