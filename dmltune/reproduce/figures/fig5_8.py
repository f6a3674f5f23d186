"""Fig. 5.8: which share μ of the features is to be pooled, μ = 1 (average pooling) included."""

from __future__ import annotations

from pathlib import Path

from dmltune.reproduce.drawing import BLUE, canvas, save
from dmltune.reproduce.figures._pooling_data import AVERAGE, DATA, gsp
from dmltune.reproduce.figures._sweep import (
    C2,
    Mean,
    Setting,
    difference,
    draw_level,
    draw_line,
    means,
    train_settings,
)
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

MUS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
BASELINE: Setting = ("gap",)


def run(request: FigureRequest) -> FigureResult:
    mus = MUS[2::7] if request.tiny else MUS
    settings: dict[Setting, tuple[str, ...]] = {BASELINE: AVERAGE}
    settings |= {("mu", mu): gsp(C2, mu=mu) for mu in mus}
    scores = means(train_settings(request, settings))
    rows = [
        (f"GSP, μ = {s[1]}" if len(s) > 1 else "GAP", m.mean, m.spread, m.seeds) for s, m in scores.items()
    ]
    table = FigureTable("", ("pooling", "MAP@R %", "sd %", "seeds"), rows)
    return FigureResult(
        [table], [draw(scores, request.label, request.folder / "fig5.8.png")], answers(scores)
    )


def answers(scores: dict[Setting, Mean]) -> list[str]:
    by_mu = {float(setting[1]): mean for setting, mean in scores.items() if len(setting) > 1}
    lines = []
    if by_mu:
        best = max(by_mu, key=lambda mu: by_mu[mu].mean)
        lines.append(f"The best share is μ = {best:g}, MAP@R {100 * by_mu[best].mean:.1f} %.")
    if BASELINE in scores and by_mu:
        lines[-1] += f" Against GAP: {difference(by_mu[best], scores[BASELINE])}."
        if 1.0 in by_mu:
            alone = difference(by_mu[1.0], scores[BASELINE])
            lines.append(f"At μ = 1 (average pooling with the zero-shot loss) against GAP: {alone}.")
    return [*lines, "The text: low values are alike; with larger ones the score falls towards that of GAP."]


def draw(scores: dict[Setting, Mean], label: str, path: Path) -> Path:
    figure, axes = canvas(1)
    axis = axes[0][0]
    mus = sorted(float(setting[1]) for setting in scores if len(setting) > 1)
    draw_line(axis, mus, [scores["mu", mu] for mu in mus], BLUE, "GSP with the zero-shot loss")
    if BASELINE in scores:
        draw_level(axis, scores[BASELINE], "GAP")
    axis.set_xlabel("μ, the share of the features that is pooled")
    axis.set_ylabel("MAP@R on validation classes, %")
    axis.legend(fontsize=9)
    return save(figure, path, f"Fig. 5.8 on {label}")


STUDY = FigureStudy(
    about="The share μ of generalized sum pooling, from 0.1 to 1, with the loss C2",
    source="thesis, Fig. 5.8",
    run=run,
    data=DATA,
    seeds=3,
)
