"""The collage study (§5.3.2, Fig. 5.5 b and 5.12 a): poolings, and GSP with the zero-shot loss.

The backbone starts from one training on single pictures at the size they have in a collage. The text's starts
from classifying CIFAR-100, its test classes included; ours from the classes of the training part alone, some
of which validate the rows later. Every row then trains with C2. The table has MAP@R on the test classes; no
training has seen their shared classes either. GSP has the parameters of the text; the other poolings have
their defaults. The row `distilled` is average pooling on the same classes without shared tiles: what a
pooling could reach that ignores them.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path

from dmltune.core.checkpoint import replace_file
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.reproduce.drawing import BLUE, GREY, ORANGE, canvas, mean_and_spread, save
from dmltune.reproduce.request import TINY, TINY_RENDERED, FigureRequest, Seeds
from dmltune.reproduce.study import DataChoice, FigureResult, FigureStudy, FigureTable, Value
from dmltune.reproduce.table_studies import key_of
from dmltune.reproduce.trainings import CellResult

BASELINE = "gap"
POOLINGS = (
    *("gap", "gmp", "gap_gmp", "cbam", "crow", "delf", "gemax", "gemean"),
    *("gsop", "otp", "solar", "smk", "netvlad", "weldon", "gsp"),
)
METHODS: dict[str, tuple[str, ...]] = {name: (f"pooling={name}",) for name in POOLINGS}
METHODS |= {  # ensembles of prototypes need many dimensions: 8 × 16 above, 64 × 128 here
    f"{name}-8192": (f"pooling={{name: {name}, clusters: 64}}", "embedding.dim=8192")
    for name in ("otp", "netvlad")
}
METHODS |= {"gsp+zero_shot": ("pooling=gsp", "zero_shot.weight=0.5")}
DISTILLED = "distilled"
DISTILLED_DATA = {"glyph_collage": "glyph_distilled", "cifar_collage": "cifar_distilled"}
METHODS |= {DISTILLED: METHODS[BASELINE]}
PRETRAINING = "pretraining"
PRETRAINING_SPACES = {  # data → its space, and what is different here
    "glyph_collage": ("glyphs", ("max_steps=1500", "validate_every=1500")),
    "cifar_collage": ("cifar-pretraining", ()),
}
COLOURS = {BASELINE: GREY, DISTILLED: ORANGE}
COLUMNS = ("pooling", "seeds", "MAP@R %", "sd %", "to gap %", "P@1 %", "validation %")


def run(request: FigureRequest) -> FigureResult:
    start = pretrained(request)
    methods = [BASELINE, DISTILLED] if request.tiny else request.rows
    cells = train(request, methods, start)
    rows = sorted((row(method, cells) for method in cells), key=lambda each: -float(each[2] or 0))
    write_csv(rows, request.folder / "poolings.csv")
    tests = {method: next(iter(own.values())).test for method, own in cells.items()}
    title = f"collages: MAP@R on {next(iter(tests.values()))['classes']} test classes"
    picture = draw_bars(rows, title, request.folder / "poolings.png")
    answers = ["Test classes, none of them used in training; differences to gap in points, seed by seed."]
    for method, test in tests.items():
        if method != DISTILLED and "raw_pixels" in test:
            answers.append(f"Neighbours by raw pixels: {100 * test['raw_pixels']['map_at_r']:.1f} %.")
            break
    return FigureResult([FigureTable("", COLUMNS, rows)], [picture], answers)


def train(request: FigureRequest, methods: Sequence[str], start: Sequence[str]) -> Seeds:
    """Train each method with every seed; return method → seed → result."""
    keys = {
        (method, seed): f"{key_of(method)}-seed{seed}" for seed in range(request.seeds) for method in methods
    }
    cells = {}
    for (method, seed), key in keys.items():
        collages = request.experiment(*METHODS[method], *start, seed=seed)
        cells[key] = distilled(collages) if method == DISTILLED else collages
    done = request.train(cells, test=True)
    results: dict[str, dict[int, CellResult]] = {}
    for (method, seed), key in keys.items():
        if key in done:
            results.setdefault(method, {})[seed] = done[key]
    return results


def distilled(collages: Experiment) -> Experiment:
    """Return the training on the classes of the collages without shared tiles, at the size of a tile."""
    name = DISTILLED_DATA.get(collages.data.name)
    if name is None:
        raise UserError(
            f"the row {DISTILLED} is for {', '.join(DISTILLED_DATA)}; got data.name={collages.data.name}. "
            "Leave the row out with --rows."
        )
    return collages.with_values({"data.name": name, "data.size": collages.data.size // 2})


def pretrained(request: FigureRequest) -> tuple[str, ...]:
    """Return the override with the weights that all rows start from.

    They are trained on single pictures at the size of a tile, with average pooling. There is no pretraining
    with `backbone.weights=FILE`.
    """
    base = request.experiment()
    if base.data.name not in PRETRAINING_SPACES or base.backbone.weights != "none":
        return ()
    space, changes = PRETRAINING_SPACES[base.data.name]
    same = (f"data.size={base.data.size // 2}", f"backbone.name={base.backbone.name}")
    small = (*TINY, f"data.size={base.data.size // 2}", *TINY_RENDERED) if request.tiny else ()
    singles = load_experiment(space, [*changes, *same, *small]).fixed()
    cell = request.train({PRETRAINING: singles}, keep_weights=True)[PRETRAINING]
    return (f"backbone.weights={cell.weights}",)


def row(method: str, cells: Seeds) -> list[Value]:
    """Return one row in the order of COLUMNS; the difference is paired by seed, one seed has no spread."""
    own, base = cells[method], cells.get(BASELINE, {})
    scores = {seed: float(cell.test["map_at_r"]) for seed, cell in own.items()}
    gaps = [score - base[seed].test["map_at_r"] for seed, score in scores.items() if seed in base]
    mean, spread = mean_and_spread(list(scores.values()))
    return [
        method,
        len(own),
        mean,
        spread if len(own) > 1 else None,
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
        color=[COLOURS.get(name, BLUE) for name in names],
        error_kw={"lw": 0.9, "capsize": 2},
    )
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("MAP@R, %  (mean and standard deviation over seeds)")
    return save(figure, path, title)


STUDY = FigureStudy(
    about="Fifteen poolings, and GSP with the zero-shot loss, on collages with three shared tiles",
    source="thesis, Fig. 5.5 b and 5.12 a",
    run=run,
    data={
        "cifar": DataChoice("cifar-collage", "collages of CIFAR-100, as in the text", stand_in=False),
        "glyphs": DataChoice("collage", "collages of rendered characters, 32 pixels"),
    },
    seeds=3,
    rows=tuple(METHODS),
)
