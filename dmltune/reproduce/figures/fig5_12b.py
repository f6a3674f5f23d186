"""Fig. 5.12 b: the poolings on birds, the mean of the four models of the fair protocol.

OTP and NetVLAD come with 128 dimensions (8 prototypes × 16) and with 8,192 (64 × 128), as in the text. On
data of the print the figures are of the test classes. On a stand-in they are of the validation classes of the
four folds, every training class once: a comparison on a CPU opens no test class.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, save
from dmltune.reproduce.figures._data import CUB
from dmltune.reproduce.figures._pooling_data import DATA, gsp
from dmltune.reproduce.figures._sweep import LOSSES, Mean, Setting, means, train_settings
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable
from dmltune.reproduce.trainings import CellResult

FOLDS = 4
WIDE = ("embedding.dim=8192",)
POOLINGS: dict[str, tuple[str, ...]] = {
    "gap": ("pooling=gap",),
    **{name: (f"pooling={name}",) for name in ("gmp", "gap_gmp", "cbam", "crow", "delf", "gemax", "gemean")},
    **{name: (f"pooling={name}",) for name in ("gsop", "solar", "smk", "weldon")},
    "otp": ("pooling={name: otp, clusters: 8}",),
    "otp-8192": ("pooling={name: otp, clusters: 64}", *WIDE),
    "netvlad": ("pooling={name: netvlad, clusters: 8}",),
    "netvlad-8192": ("pooling={name: netvlad, clusters: 64}", *WIDE),
    "gsp": (),
    "gsp+gmp": ("pooling.under=sum+max",),
}
Scores = dict[Setting, Mean]


def run(request: FigureRequest) -> FigureResult:
    names = [name for name in request.rows if name in ("gap", "gsp+gmp")] if request.tiny else request.rows
    folds, losses = (1, list(LOSSES)[:1]) if request.tiny else (FOLDS, list(LOSSES))
    settings: dict[Setting, tuple[str, ...]] = {
        (loss, name, fold): (*overrides(loss, name), "objective.protocol=fair", f"fold={fold}")
        for loss in losses
        for name in names
        for fold in range(folds)
    }
    opens_test = not request.data.stand_in
    cells = train_settings(request, settings, test=opens_test)
    scores = of_all_folds(cells, opens_test)
    ordered = sorted(scores, key=lambda setting: -scores[setting].mean)
    gains = {setting: gain(setting, scores) for setting in ordered}
    rows = [(*s, scores[s].mean, scores[s].spread, gains[s], scores[s].seeds) for s in ordered]
    where = "test classes" if opens_test else "validation classes of the folds"
    table = FigureTable(
        f"MAP@R on {where}, the mean of {folds} models",
        ("loss", "pooling", "MAP@R %", "sd %", "to gap, points", "models"),
        rows,
    )
    picture = draw(scores, f"Fig. 5.12 b on {request.label}, {where}", request.folder / "fig5.12b.png")
    return FigureResult([table], [picture], answers(scores))


def overrides(loss: str, pooling: str) -> tuple[str, ...]:
    own = POOLINGS[pooling]
    return (*gsp(loss), *own) if pooling.startswith("gsp") and pooling != "gsop" else (*LOSSES[loss], *own)


def of_all_folds(cells: Mapping[Setting, list[CellResult]], test: bool) -> Scores:
    """Return the mean over the models of all folds of each (loss, pooling)."""
    joined: dict[Setting, list[CellResult]] = {}
    for setting, group in cells.items():
        joined.setdefault(setting[:2], []).extend(group)
    return means(joined, lambda cell: float(cell.test["map_at_r"]) if test else cell.score)


def gain(setting: Setting, scores: Scores) -> str | None:
    baseline = scores.get((setting[0], "gap"))
    if baseline is None or setting[1] == "gap":
        return None
    return f"{100 * (scores[setting].mean - baseline.mean):+.1f}"


def answers(scores: Scores) -> list[str]:
    lines = []
    for loss in LOSSES:
        own = {str(name): mean for (whose, name), mean in scores.items() if whose == loss}
        if len(own) > 1:
            best = max(own, key=lambda name: own[name].mean)
            better = sum(mean.mean > own["gsp"].mean for mean in own.values()) if "gsp" in own else None
            place = "" if better is None else f"; GSP is number {better + 1} of {len(own)}"
            lines.append(f"{loss}: the best pooling is {best}, {100 * own[best].mean:.1f} %{place}.")
    return [*lines, "The text: GSP is best, DeLF and GeMean are near, gains on GAP stay below 2 points."]


def draw(scores: Scores, title: str, path: Path) -> Path:
    losses = [loss for loss in LOSSES if any(setting[0] == loss for setting in scores)]
    most = max(sum(setting[0] == loss for setting in scores) for loss in losses)
    figure, axes = canvas(len(losses), width=4.4, height=1.2 + 0.27 * most)
    for axis, loss in zip(axes[0], losses, strict=True):
        own = sorted((s for s in scores if s[0] == loss), key=lambda setting: -scores[setting].mean)
        colours = {"gap": GREY, "gsp": ORANGE, "gsp+gmp": ORANGE}
        axis.barh(
            range(len(own)),
            [100 * scores[setting].mean for setting in own],
            xerr=[100 * scores[setting].spread for setting in own],
            color=[colours.get(str(name), BLUE) for _, name in own],
            error_kw={"lw": 0.9, "capsize": 2},
        )
        axis.set_yticks(range(len(own)), [str(name) for _, name in own])
        axis.invert_yaxis()
        axis.set_xlabel("MAP@R, %  (mean and sd of the models)")
        axis.set_title(loss, fontsize=9)
    return save(figure, path, title)


STUDY = FigureStudy(
    about="Poolings compared on birds, with the losses C2 and ProxyNCA++, four folds",
    source="thesis, Fig. 5.12 b",
    run=run,
    data={"cub": CUB, **{label: DATA[label] for label in ("birds", "glyphs")}},
    rows=tuple(POOLINGS),
)
