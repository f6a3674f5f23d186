"""Fig. 4.2: local features in the plane, the partition by 48 prototypes, and the covering radius."""

from __future__ import annotations

from pathlib import Path

import torch

from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.figures._local_features import DATA, SHARED, LocalFeatures, trained_features
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

MOST_DRAWN = 12_000  # local features


def run(request: FigureRequest) -> FigureResult:
    local = trained_features(request)
    owner_M, purity_M, counts_M = owners(local)
    rows = []
    for label, name in enumerate(local.names):
        own_M = owner_M == label
        share = float(purity_M[own_M].mean()) if bool(own_M.any()) else None
        rows.append((name, int(own_M.sum()), int(counts_M[own_M].sum()), share))
    columns = ("class", "prototypes it owns", "local features", "of them its own %")
    table = FigureTable("A prototype is owned by the class with most of its local features.", columns, rows)
    answers = [
        f"{len(local.prototypes_MD)} prototypes cover {counts_M.sum():,} local features with radius "
        f"{local.radius:.3f} (the longest feature has length 1).",
        f"{100 * purity(local):.0f} % of the local features are of the class that owns their prototype; "
        f"chance is about {100 / len(local.names):.0f} %.",
    ]
    picture = draw(local, request.label, request.folder / "fig4.2.png")
    return FigureResult([table], [picture], answers)


def owners(local: LocalFeatures) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return for each prototype the class with most of its features, that share, and their number."""
    classes, prototypes = len(local.names), len(local.prototypes_MD)
    nearest_BN = local.nearest_BN()
    place = local.labels_B.unsqueeze(1) * prototypes + nearest_BN
    counts_CM = torch.bincount(place.flatten(), minlength=classes * prototypes).view(classes, prototypes)
    counts_M = counts_CM.sum(0)
    most_M, owner_M = counts_CM.max(0)
    return owner_M, most_M / counts_M.clamp(min=1), counts_M


def purity(local: LocalFeatures) -> float:
    """Return the share of local features that are of the class that owns their prototype."""
    _, purity_M, counts_M = owners(local)
    return float((purity_M * counts_M).sum() / counts_M.sum())


def draw(local: LocalFeatures, label: str, path: Path) -> Path:
    """Colour local features by their prototype (left) and by their class (right)."""
    from matplotlib import colormaps

    figure, axes = canvas(2, width=4.8, height=4.6, sharex=True, sharey=True)
    flat_XD = local.features_BND.flatten(0, 1)
    shown = torch.randperm(len(flat_XD), generator=torch.Generator().manual_seed(0))[:MOST_DRAWN]
    by_prototype = local.nearest_BN().flatten()[shown] % 20
    by_class = local.labels_B.repeat_interleave(local.features_BND.shape[1])[shown]
    points = flat_XD[shown].numpy()
    for axis, colour, title in (
        (axes[0][0], by_prototype, "by nearest prototype"),
        (axes[0][1], by_class, "by class"),
    ):
        palette = colormaps["tab20" if colour is by_prototype else "tab10"]
        axis.scatter(points[:, 0], points[:, 1], c=palette(colour.numpy()), s=3, lw=0)
        centres = local.prototypes_MD.numpy()
        axis.scatter(centres[:, 0], centres[:, 1], c="black", marker="x", s=28, lw=1.2, label="prototypes")
        axis.set_title(title, fontsize=9)
        axis.set_aspect("equal")
    handles = [axes[0][0].get_legend_handles_labels()[0][0]]
    names = ["prototypes"]
    for index, name in enumerate(local.names[:10]):
        handles.append(axes[0][1].scatter([], [], color=colormaps["tab10"](index), s=18))
        names.append(name)
    figure.legend(handles, names, loc="outside lower center", ncols=6, fontsize=8)
    return save(figure, path, f"Fig. 4.2 on {label}: δ = {local.radius:.3f}")


STUDY = FigureStudy(
    about="Local features of a network in the plane, and the prototypes that cover them",
    source="thesis, Fig. 4.2",
    run=run,
    data=DATA,
    trainings=SHARED,
)
