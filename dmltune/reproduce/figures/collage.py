"""The collage study (§5.3.2, Fig. 5.12 a): poolings, and GSP with the zero-shot loss.

The backbone starts from one training on single characters at the size they have in a collage. The text's
starts from classifying CIFAR-100, its test classes included; ours from characters of the training half.
Every row then trains the space `collage` with C2. The table has MAP@R on the test classes; no training has
seen their shared classes either. GSP has the parameters of the text; the other poolings have their defaults.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path

from dmltune.core.checkpoint import replace_file
from dmltune.experiment import load_experiment
from dmltune.reproduce.drawing import BLUE, GREY, canvas, mean_and_spread, save
from dmltune.reproduce.request import TINY_RENDERED, FigureRequest, Seeds
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable, Value

BASELINE = "gap"
POOLINGS = (
    *("gap", "gmp", "gap_gmp", "cbam", "crow", "delf", "gemax", "gemean"),
    *("gsop", "otp", "solar", "smk", "netvlad", "weldon", "gsp"),
)
METHODS: dict[str, tuple[str, ...]] = {name: (f"pooling={name}",) for name in POOLINGS}
METHODS |= {"gsp+zero_shot": ("pooling=gsp", "zero_shot.weight=0.5")}
PRETRAINING, PRETRAINING_SPACE, PRETRAINING_STEPS = "pretraining", "glyphs", 1500
COLUMNS = ("pooling", "seeds", "MAP@R %", "sd %", "to gap %", "P@1 %", "validation %")


def run(request: FigureRequest) -> FigureResult:
    start = pretrained(request)
    methods = request.rows[:2] if request.tiny else request.rows
    cells = request.train_each({method: (*METHODS[method], *start) for method in methods}, test=True)
    rows = sorted((row(method, cells) for method in cells), key=lambda each: -float(each[2] or 0))
    write_csv(rows, request.folder / "poolings.csv")
    test = next(cell.test for own in cells.values() for cell in own.values())
    title = f"collages: MAP@R on {test['classes']} test classes"
    picture = draw_bars(rows, title, request.folder / "poolings.png")
    raw = test.get("raw_pixels", {}).get("map_at_r", 0.0)
    answers = [
        "Test classes, none of them used in training; differences to gap in points, seed by seed.",
        f"Neighbours by raw pixels: {100 * raw:.1f} %.",
    ]
    return FigureResult([FigureTable("", COLUMNS, rows)], [picture], answers)


def pretrained(request: FigureRequest) -> tuple[str, ...]:
    """Return the override with the weights that all rows start from.

    They are trained on single characters at the size of a tile, with average pooling. There is no
    pretraining with `backbone.weights=FILE`, nor for CIFAR-100.
    """
    base = request.experiment()
    if base.data.name != "glyph_collage" or base.backbone.weights != "none":
        return ()
    steps = base.max_steps if request.tiny else PRETRAINING_STEPS
    changes = [f"data.size={base.data.size // 2}", f"backbone.name={base.backbone.name}"]
    changes += [f"max_steps={steps}", f"validate_every={steps}"]
    changes += (*TINY_RENDERED, "batch.size=8") if request.tiny else ()
    characters = load_experiment(PRETRAINING_SPACE, changes).fixed()
    cell = request.train({PRETRAINING: characters}, keep_weights=True)[PRETRAINING]
    return (f"backbone.weights={cell.weights}",)


def row(method: str, cells: Seeds) -> list[Value]:
    """Return one row in the order of COLUMNS; the difference is paired by seed."""
    own, base = cells[method], cells.get(BASELINE, {})
    scores = {seed: float(cell.test["map_at_r"]) for seed, cell in own.items()}
    gaps = [score - base[seed].test["map_at_r"] for seed, score in scores.items() if seed in base]
    return [
        method,
        len(own),
        *mean_and_spread(list(scores.values())),
        statistics.fmean(gaps) if gaps and method != BASELINE else None,
        statistics.fmean(float(cell.test["precision_at_1"]) for cell in own.values()),
        statistics.fmean(cell.score for cell in own.values()),
    ]


def write_csv(rows: Sequence[Sequence[Value]], path: Path) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("method", "seeds", "map_at_r", "std", "to_gap", "precision_at_1", "validation"))
    writer.writerows(rows)
    replace_file(path, text.getvalue().encode())
    return path


def draw_bars(rows: Sequence[Sequence[Value]], title: str, path: Path) -> Path:
    """Draw MAP@R and its spread as horizontal bars in percent, the first on top."""
    figure, axes = canvas(1, width=6.4, height=1.0 + 0.27 * len(rows))
    axis = axes[0][0]
    names = [str(each[0]) for each in rows]
    axis.barh(
        range(len(rows)),
        [100 * float(each[2] or 0) for each in rows],
        xerr=[100 * float(each[3] or 0) for each in rows],
        color=[GREY if name == BASELINE else BLUE for name in names],
        error_kw={"lw": 0.9, "capsize": 2},
    )
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("MAP@R, %  (mean and standard deviation over seeds)")
    return save(figure, path, title)


STUDY = FigureStudy(
    about="Fifteen poolings, and GSP with the zero-shot loss, on collages with three shared tiles",
    source="thesis, Fig. 5.12 a",
    run=run,
    data={
        "cifar": DataChoice(
            "collage",
            "collages of CIFAR-100, as in the text",
            ("data.name=cifar_collage", "data.size=64"),
            stand_in=False,
        ),
        "glyphs": DataChoice("collage", "collages of rendered characters, 32 pixels"),
    },
    seeds=3,
    rows=tuple(METHODS),
)
