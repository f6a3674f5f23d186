"""Fig. 5.12 b: the poolings on birds, the mean of the four models of the fair protocol.

OTP and NetVLAD come with 128 dimensions (8 prototypes × 16) and with 8,192 (64 × 128), as in the text. On
data of the print the figures are of the test classes. On a stand-in they are of the validation classes of the
four folds, every training class once: a comparison on a CPU opens no test class.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, mean_and_spread, save
from dmltune.reproduce.figures._data import CUB
from dmltune.reproduce.figures._pooling_data import DATA, gsp
from dmltune.reproduce.figures._sweep import LOSSES, Mean, Setting, train_settings
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
ByModel = dict[tuple[int, int], float]  # (fold, number of the seed) → MAP@R


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
    by_model = scores_of_models(train_settings(request, settings, test=opens_test), opens_test)
    scores = {key: Mean(*mean_and_spread(list(own.values())), len(own)) for key, own in by_model.items()}
    rows = [
        (*key, scores[key].mean, scores[key].spread, gain(key, by_model), scores[key].seeds)
        for key in sorted(scores, key=lambda key: -scores[key].mean)
    ]
    where = "test classes" if opens_test else "validation classes of the folds"
    table = FigureTable(
        f"MAP@R on {where}, mean of {folds} folds; differences are of the same fold and seed ± sd",
        ("loss", "pooling", "MAP@R %", "sd %", "to gap, points", "models"),
        rows,
    )
    picture = draw(scores, f"Fig. 5.12 b on {request.label}, {where}", request.folder / "fig5.12b.png")
    return FigureResult([table], [picture], answers(scores))


def overrides(loss: str, pooling: str) -> tuple[str, ...]:
    own = POOLINGS[pooling]
    return (*gsp(loss), *own) if pooling in ("gsp", "gsp+gmp") else (*LOSSES[loss], *own)


def scores_of_models(cells: Mapping[Setting, list[CellResult]], test: bool) -> dict[Setting, ByModel]:
    """Return (loss, pooling) → (fold, number of the seed) → MAP@R."""
    joined: dict[Setting, ByModel] = {}
    for setting, group in cells.items():
        for number, cell in enumerate(group):
            score = float(cell.test["map_at_r"]) if test else cell.score
            joined.setdefault(setting[:2], {})[int(setting[2]), number] = score
    return joined


def gain(key: Setting, by_model: Mapping[Setting, ByModel]) -> str | None:
    """Return the mean difference to average pooling in points, model by model, and its spread."""
    own, baseline = by_model[key], by_model.get((key[0], "gap"), {})
    differences = [own[model] - baseline[model] for model in own if model in baseline]
    if not differences or key[1] == "gap":
        return None
    mean, spread = mean_and_spread(differences)
    return f"{100 * mean:+.1f}" + (f" ± {100 * spread:.1f}" if len(differences) > 1 else "")


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
