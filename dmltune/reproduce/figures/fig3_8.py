"""Fig. 3.8: does CCP need large batches? The contrastive loss with and without CCP at four batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, ORANGE, canvas, mean_and_spread, powers_of_two, save
from dmltune.reproduce.figures._data import CCP_DATA
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

SIZES = (16, 32, 64, 128)
METHODS = {"C2": "references=batch", "C2+CCP": "references=ccp"}
Scores = Mapping[tuple[str, int], tuple[float, float]]  # (method, batch size) → mean, spread


def run(request: FigureRequest) -> FigureResult:
    sizes = SIZES[:1] if request.tiny else SIZES
    variants = {f"{method} {size}": (method, size) for method in request.rows for size in sizes}
    trained = request.train_each(
        {name: (METHODS[method], f"batch.size={size}") for name, (method, size) in variants.items()}
    )
    scores = {
        variants[name]: mean_and_spread([cell.score for cell in cells.values()])
        for name, cells in trained.items()
    }
    rows = [(*variants[name], *scores[variants[name]], len(cells)) for name, cells in trained.items()]
    table = FigureTable("", ("method", "batch size", "MAP@R %", "sd %", "seeds"), rows)
    picture = draw(scores, request.label, request.folder / "fig3.8.png")
    return FigureResult([table], [picture], answers(scores))


def answers(scores: Scores) -> list[str]:
    """Return for each method what the smallest batch loses against the largest."""
    lines = []
    for method in METHODS:
        sizes = sorted(size for name, size in scores if name == method)
        if len(sizes) > 1:
            loss = scores[method, sizes[-1]][0] - scores[method, sizes[0]][0]
            lines.append(
                f"{method}: {100 * loss:+.1f} points of MAP@R from batches of {sizes[0]} to {sizes[-1]}."
            )
    return [*lines, "The text: the baseline gains with the batch, CCP is on par at 16."] if lines else []


def draw(scores: Scores, label: str, path: Path) -> Path:
    figure, axes = canvas(1)
    axis = axes[0][0]
    for method, colour in zip(METHODS, (ORANGE, BLUE), strict=True):
        sizes = sorted(size for name, size in scores if name == method)
        means = [100 * scores[method, size][0] for size in sizes]
        spreads = [100 * scores[method, size][1] for size in sizes]
        axis.errorbar(sizes, means, spreads, marker="o", capsize=3, color=colour, label=method)
    powers_of_two(axis, SIZES)
    axis.set_xlabel("images in a batch, 4 of a class")
    axis.set_ylabel("MAP@R on validation classes, %")
    axis.legend(fontsize=9)
    return save(figure, path, f"Fig. 3.8 on {label}")


STUDY = FigureStudy(
    about="Batch size: the contrastive loss C2 with and without CCP, from 16 to 128 images",
    source="thesis, Fig. 3.8",
    run=run,
    data=CCP_DATA,
    rows=tuple(METHODS),
)
