"""SFT, Table 5: does moving features of head classes to tail classes help the tail?

A classifier of classes with many training images (head) and with few (tail), tested on further images of the
same classes: without the transform, with generated features of all classes, and of tail classes alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREEN, GREY, canvas, mean_and_spread, save
from dmltune.reproduce.figures._closed_set import Sizes, accuracies
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable

TITLE = "Accuracy on held-out images of the trained classes"
PARTS = ("head", "tail")
FULL, SMALL, TINY = Sizes(50, 5, 101), Sizes(10, 2, 14), Sizes(3, 1, 6)
_SFT = "transform={{name: sft, scheme: {}, weight: 0.2, tail_below: {}}}"
SCHEMES = {"baseline": "", "balanced": "balanced", "unbalanced": "unbalanced"}
COLOURS = {"baseline": GREY, "balanced": GREEN, "unbalanced": BLUE}
THEIRS = {"baseline": (0.9561, 0.7391), "balanced": (0.9577, 0.7835), "unbalanced": (0.9549, 0.8232)}
FACES = DataChoice(
    "faces",
    "faces in folders of people with more than 100 images each, 36-layer network with one unit a stage",
    ("backbone=face_resnet_small",),
    stand_in=False,
)
GLYPHS = DataChoice(
    "glyphs",
    "rendered characters with 14 pictures or more, 10 (head) or 2 (tail) of them train; ResNet-20",
    (
        *("data.size=24", "loss={name: l2_softmax, scale: 16.0}", "batch={size: 64, samples_per_class: 0}"),
        *("optimizer.proxy_factor=10", "max_steps=800", "validate_every=200"),
    ),
)
Scores = Mapping[str, list[dict[str, float]]]


def run(request: FigureRequest) -> FigureResult:
    sizes = TINY if request.tiny else SMALL if request.data.stand_in else FULL
    scores: dict[str, list[dict[str, float]]] = {}
    for seed in range(request.seeds):
        for name in request.rows:
            scheme = SCHEMES[name]
            change = _SFT.format(scheme, sizes.head) if scheme else "transform=identity"
            experiment = request.experiment(change, seed=seed)
            found = accuracies(request, f"{name}-seed{seed}", experiment, sizes)
            scores.setdefault(name, []).append(found)
    rows = [
        (part, name, THEIRS[name][place], *mean_and_spread([found[part] for found in each]), len(each))
        for place, part in enumerate(PARTS)
        for name, each in scores.items()
    ]
    columns = ("classes", "method", "print %", "ours %", "sd %", "seeds")
    picture = draw(scores, request.label, request.folder / "sft-table5.png")
    return FigureResult(
        [FigureTable(TITLE, columns, rows)],
        [picture],
        answers(scores),
    )


def answers(scores: Scores) -> list[str]:
    lines = []
    for name in ("balanced", "unbalanced"):
        if name in scores and "baseline" in scores:
            gains = {
                part: mean_and_spread(
                    [a[part] - b[part] for a, b in zip(scores[name], scores["baseline"], strict=True)]
                )
                for part in PARTS
            }
            text = ", ".join(
                f"{part} {100 * mean:+.1f} points"
                + (f" (sd {100 * sd:.1f})" if len(scores[name]) > 1 else "")
                for part, (mean, sd) in gains.items()
            )
            lines.append(f"{name}, against the baseline seed by seed: {text}.")
    return [*lines, "The text: tail +4.4 (balanced) and +8.4 points (unbalanced), head +0.2 and −0.1."]


def draw(scores: Scores, label: str, path: Path) -> Path:
    figure, axes = canvas(1, width=4.6)
    axis = axes[0][0]
    for place, (name, each) in enumerate(scores.items()):
        pairs = [mean_and_spread([found[part] for found in each]) for part in PARTS]
        axis.bar(
            [group + 0.27 * (place - 1) for group in range(2)],
            [100 * mean for mean, _ in pairs],
            0.25,
            yerr=[100 * sd for _, sd in pairs],
            color=COLOURS[name],
            label=name,
            error_kw={"capsize": 2, "lw": 0.9},
        )
    axis.set_xticks(range(2), ["head classes", "tail classes"])
    axis.set_ylabel("accuracy on held-out images, %")
    axis.legend(fontsize=8)
    return save(figure, path, f"SFT, Table 5 on {label}")


STUDY = FigureStudy(
    about="An unbalanced set: accuracy of head and tail classes under both schemes of the transform",
    source="Spherical Feature Transform, Table 5",
    run=run,
    data={"faces": FACES, "glyphs": GLYPHS},
    rows=tuple(SCHEMES),
)
