"""Fig. 4.5: the big picture, measured: hulls under average pooling, and under generalized sum pooling.

The text sketches what a pooling that controls prototypes and weights could reach. The pooling of chapter 5
does; its weights say which prototypes are active for a class.
"""

from __future__ import annotations

from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.figures._hulls import (
    active_prototypes,
    draw_hulls,
    in_foreign_hulls,
    overlapping_pairs,
)
from dmltune.reproduce.figures._local_features import DATA, SHARED, trained_features
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

TITLES = {"gap": "average pooling", "gsp": "generalized sum pooling"}


def run(request: FigureRequest) -> FigureResult:
    features = {pooling: trained_features(request, pooling) for pooling in TITLES}
    figure, axes = canvas(2, width=4.8, height=4.8, sharex=True, sharey=True)
    rows, shares = [], {}
    for axis, (pooling, local) in zip(axes[0], features.items(), strict=True):
        pairs, of = overlapping_pairs(local)
        shares[pooling] = (pairs, in_foreign_hulls(local))
        active = sum(len(own) for own in active_prototypes(local)) / len(local.names)
        rows.append((TITLES[pooling], active, pairs, of, shares[pooling][1]))
        draw_hulls(axis, local, f"{TITLES[pooling]}: {pairs} of {of} pairs overlap")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    columns = ("pooling", "active a class", "overlapping", "pairs", "in foreign hulls %")
    answer = (
        f"Pairs of class hulls that overlap: {shares['gap'][0]} under average pooling, {shares['gsp'][0]} "
        f"under GSP; images in the hull of another class's images: {100 * shares['gap'][1]:.0f} % and "
        f"{100 * shares['gsp'][1]:.0f} %."
    )
    shared = "What GSP does where classes share most of their features: dmltune reproduce synthetic"
    picture = save(figure, request.folder / "fig4.5.png", f"Fig. 4.5 on {request.label}")
    return FigureResult([FigureTable("", columns, rows)], [picture], [answer, shared])


STUDY = FigureStudy(
    about="Class hulls under average pooling and under generalized sum pooling",
    source="thesis, Fig. 4.5",
    run=run,
    data=DATA,
    trainings=SHARED,
)
