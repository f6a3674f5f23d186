"""SFT, Fig. 2: are the covariances of classes alike, or only their eigenvalues?

Four classes with many images, of a model trained without the transform: the points in three principal
components, the diagonals of the four covariances, and their eigenvalues.

N points, D dimensions.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from dmltune.core.analysis import class_spectra, class_variances, similarity
from dmltune.reproduce.drawing import COLOURS, save
from dmltune.reproduce.figures._points import points_of
from dmltune.reproduce.figures._sft_data import BASELINE, BIRDS, CARS, CUB, GLYPHS
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

CLASSES, SHOWN = 4, 40  # classes, and places of the diagonals


def largest_classes(labels_N: Tensor, count: int) -> Tensor:
    """Return the labels of the classes with most points, the largest first."""
    return labels_N.bincount().argsort(descending=True, stable=True)[:count]


def principal_components(emb_ND: Tensor, count: int) -> Tensor:
    """Return the points, centred, along the directions of largest variance, (N, count)."""
    centred_ND = emb_ND - emb_ND.mean(0)
    right_DD: Tensor = torch.linalg.svd(centred_ND, full_matrices=False)[2]
    return centred_ND @ right_DD[:count].mT


def run(request: FigureRequest) -> FigureResult:
    experiment = request.experiment(*BASELINE)
    cell = request.train({"baseline-seed0": experiment})["baseline-seed0"]
    all_ND, all_N = points_of(request, experiment, request.embedder(cell), "train")
    chosen_C = largest_classes(all_N, CLASSES)
    mine_N = torch.isin(all_N, chosen_C)
    emb_ND, labels_N = all_ND[mine_N].double(), all_N[mine_N]
    variances_CD, spectra_CE = class_variances(emb_ND, labels_N), class_spectra(emb_ND, labels_N)
    apart = {"diagonals": 1 - similarity(variances_CD), "eigenvalues": 1 - similarity(spectra_CE)}
    counts = [int((labels_N == label).sum()) for label in chosen_C]
    table = FigureTable(
        f"Difference of four training classes with {min(counts)} to {max(counts)} images",
        ("of their covariances", "difference %"),
        list(apart.items()),
    )
    picture = draw(emb_ND, labels_N, variances_CD, spectra_CE, request)
    return FigureResult([table], [picture], answers(apart, min(counts), emb_ND.shape[1]))


def answers(apart: dict[str, float], images: int, dim: int) -> list[str]:
    lines = [
        f"The diagonals differ by {100 * apart['diagonals']:.0f} %, the eigenvalues by "
        f"{100 * apart['eigenvalues']:.0f} % (Σ|a − b| / Σ(a + b) over all pairs of classes)."
    ]
    if images <= dim:
        lines.append(f"With {images} images in {dim} dimensions most eigenvalues of a class are 0.")
    return [*lines, "The text: the diagonals differ much, the eigenvalues by about 8 %."]


def draw(
    emb_ND: Tensor, labels_N: Tensor, variances_CD: Tensor, spectra_CE: Tensor, request: FigureRequest
) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.4, 3.6), layout="constrained", dpi=150)
    space = figure.add_subplot(1, 3, 1, projection="3d")
    points_N3 = principal_components(emb_ND, 3).numpy()
    for place, label in enumerate(torch.unique(labels_N).tolist()):
        own_N3 = points_N3[(labels_N == label).numpy()]
        space.scatter(*own_N3.T, s=9, color=COLOURS[place], label=f"class {place + 1}")
    space.set_title("(a) three principal components", fontsize=9)
    space.tick_params(labelsize=6)
    space.legend(fontsize=7)
    parts = (("(b) diagonals", variances_CD), ("(c) eigenvalues", spectra_CE))
    for number, (title, values) in enumerate(parts, start=2):
        axis = figure.add_subplot(1, 3, number)
        for place, row in enumerate(values[:, :SHOWN]):
            axis.plot(range(1, len(row) + 1), row.numpy(), marker=".", lw=1, color=COLOURS[place])
        axis.set_xlabel("place")
        axis.set_title(f"{title} of the covariances", fontsize=9)
    return save(figure, request.folder / "sft-fig2.png", f"SFT, Fig. 2 on {request.label}")


STUDY = FigureStudy(
    about="Covariances of four classes and their eigenvalues, in a model trained without the transform",
    source="Spherical Feature Transform, Fig. 2",
    run=run,
    data={"cub": CUB, "cars": CARS, "birds": BIRDS, "glyphs": GLYPHS},
    trainings="sft-shapes",
)
