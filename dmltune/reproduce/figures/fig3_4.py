"""Fig. 3.4: how much XBM and CCP gain over their losses, relative to the loss alone.

The text's bars are those of Table 3.1 (MAP@R, 128 and 512 dimensions, In-Shop and SOP). Beside them stand
trainings here, with MAP@R on validation classes. Every loss has the settings of the space.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, save
from dmltune.reproduce.figures._data import CCP_DATA
from dmltune.reproduce.paper_tables import cells, load_table
from dmltune.reproduce.request import FigureRequest, Seeds
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

LOSSES = {
    "C1": "loss=contrastive_cosine",
    "C2": "loss=contrastive",
    "MS": "loss=multi_similarity",
    "Triplet": "loss=triplet",
}
ADDED = {"": "references=batch", "+XBM": "references=xbm", "+CCP": "references=ccp"}
PRINTED_NAMES = {"+XBM+L": "+XBM", "+CCP-L": "+CCP"}
PRINTED_DATA = ("In-shop", "SOP")
Gains = Mapping[tuple[str, str], float]  # (loss, what is added) → gain relative to the loss alone


def run(request: FigureRequest) -> FigureResult:
    losses = request.rows[1:2] if request.tiny else request.rows
    plan = {loss + added: (LOSSES[loss], refs) for loss in losses for added, refs in ADDED.items()}
    trained = request.train_each(plan)
    ours = relative_gains(trained)
    theirs = {f"{data}, {dim}": printed_gains(data, dim) for data in PRINTED_DATA for dim in ("128D", "512D")}
    groups = {**theirs, f"here: {request.label}": ours}
    rows = [
        (loss + added, *(gains.get((loss, added)) for gains in groups.values()))
        for loss in LOSSES
        for added in ("+XBM", "+CCP")
    ]
    scores = [(name, *_mean(trained, name), len(seeds)) for name, seeds in trained.items()]
    tables = [
        FigureTable("MAP@R relative to the loss alone", ("method", *(f"{name} %" for name in groups)), rows),
        FigureTable("trained here", ("method", "MAP@R %", "seeds"), scores),
    ]
    picture = draw(groups, request.folder / "fig3.4.png")
    return FigureResult(tables, [picture], answers(ours, theirs, request.label))


def _mean(trained: Seeds, name: str) -> tuple[float]:
    own = [cell.score for cell in trained[name].values()]
    return (sum(own) / len(own),)


def relative_gains(trained: Seeds) -> dict[tuple[str, str], float]:
    """Return (mean of the method − mean of its loss) / mean of its loss."""
    return {
        (loss, added): _mean(trained, loss + added)[0] / _mean(trained, loss)[0] - 1
        for loss in LOSSES
        for added in ADDED
        if added and loss in trained and loss + added in trained
    }


def printed_gains(data: str, dimensions: str) -> dict[tuple[str, str], float]:
    """Return the relative gains of Table 3.1."""
    score = {"128D": "single", "512D": "ensemble"}[dimensions]
    figures = {
        cell.row: cell.theirs
        for cell in cells(load_table("3.1"))
        if (cell.data, cell.score, cell.metric) == (data, score, "map_at_r") and cell.theirs
    }
    return {
        (loss, added): figures[loss + suffix] / figures[loss] - 1
        for loss in LOSSES
        for suffix, added in PRINTED_NAMES.items()
        if loss + suffix in figures
    }


def answers(ours: Gains, theirs: Mapping[str, Gains], label: str) -> list[str]:
    better = [key for key, gain in ours.items() if key[1] == "+CCP" and gain > 0]
    losses = {loss for loss, _ in ours}
    least = min(gain for gains in theirs.values() for (_, added), gain in gains.items() if added == "+CCP")
    return [
        f"In print CCP gains {100 * least:.1f} % or more over every one of its losses.",
        f"On {label} it is better than its loss alone for {len(better)} of {len(losses)} losses: "
        + ", ".join(f"{loss} {100 * ours[loss, '+CCP']:+.1f} %" for loss in LOSSES if (loss, "+CCP") in ours)
        + ".",
    ]


def draw(groups: Mapping[str, Gains], path: Path) -> Path:
    figure, axes = canvas(len(groups), width=2.5, height=3.6)
    for axis, (title, gains) in zip(axes[0], groups.items(), strict=True):
        for offset, (added, colour) in zip((-0.19, 0.19), (("+XBM", ORANGE), ("+CCP", BLUE)), strict=True):
            pairs = [(i, gains[loss, added]) for i, loss in enumerate(LOSSES) if (loss, added) in gains]
            places, heights = [i + offset for i, _ in pairs], [100 * gain for _, gain in pairs]
            axis.bar(places, heights, width=0.36, color=colour, label=added)
        axis.axhline(0, color=GREY, lw=0.8)
        axis.set_xticks(range(len(LOSSES)), list(LOSSES), fontsize=8)
        axis.set_title(title, fontsize=9)
    axes[0][0].set_ylabel("gain over the loss alone, % of its MAP@R")
    axes[0][0].legend(fontsize=8)
    return save(figure, path)


STUDY = FigureStudy(
    about="Relative gains of XBM and CCP over four losses: printed, and trained here",
    source="thesis, Fig. 3.4",
    run=run,
    data=CCP_DATA,
    rows=tuple(LOSSES),
)
