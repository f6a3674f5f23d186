"""Table 5.4 as what it is, a screening: the effect of each parameter of GSP, printed and ours.

Eight of the sixteen settings of four parameters at two levels, chosen so that the level of λ is the product
of the three others: main effects are clear of those of pairs, and pairs are mixed with each other. An effect
is the mean of the four settings at the high level minus that of the four at the low one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import BLUE, GREY, canvas, save
from dmltune.reproduce.figures._pooling_data import AVERAGE, DATA
from dmltune.reproduce.figures._sweep import C2, LOSSES, PNCA, Mean, Setting, means, train_settings
from dmltune.reproduce.paper_tables import Table, load_table, printed, values_of
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

FACTORS = {  # printed name → (key, low, high)
    "m": ("pooling.prototypes", 16, 128),
    "μ": ("pooling.mu", 0.3, 0.7),
    "ε": ("pooling.epsilon", 0.5, 20.0),
    "λ": ("zero_shot.weight", 0.1, 0.5),
}
BASELINE = "baseline"


def levels(table: Table) -> dict[str, tuple[int, ...]]:
    """Return row → its levels, −1 or 1 in the order of FACTORS; the baseline has none."""
    found = {}
    for row, about in table.rows.items():
        values = values_of(about.overrides)
        if row != BASELINE:
            found[row] = tuple({low: -1, high: 1}[values[key]] for key, low, high in FACTORS.values())
    return found


def effects(scores: Mapping[str, float], design: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the main effects, mean at the high level − mean at the low one; all rows must have a score."""
    return {
        factor: sum(design[row][place] * scores[row] for row in design) * 2 / len(design)
        for place, factor in enumerate(FACTORS)
    }


def run(request: FigureRequest) -> FigureResult:
    table = load_table("5.4")
    design = levels(table)
    rows = [BASELINE, *design][:2] if request.tiny else [BASELINE, *design]
    overrides = {row: tuple(AVERAGE if row == BASELINE else table.rows[row].overrides) for row in rows}
    settings: dict[Setting, tuple[str, ...]] = {
        (loss, row): (*LOSSES[loss], *overrides[row])
        for loss in (request.rows[:1] if request.tiny else request.rows)
        for row in rows
    }
    scores = means(train_settings(request, settings))
    theirs = {
        (loss, row): printed(about.theirs[loss][0], table.unit)[0] or 0.0
        for loss in request.rows
        for row, about in table.rows.items()
    }
    shown = [
        (loss, row, theirs[loss, row], scores[loss, row].mean, scores[loss, row].spread)
        for loss in request.rows
        for row in rows
        if (loss, row) in scores
    ]
    tables = [FigureTable("", ("loss", "setting", "print %", "ours %", "sd %"), shown)]
    both = {
        loss: (effects({row: theirs[loss, row] for row in design}, design), _ours(loss, scores, design))
        for loss in request.rows
    }
    tables.append(
        FigureTable(
            "Main effects: the four settings at the high level minus the four at the low one, points",
            ("loss", *(f"{name} {kind}" for name in FACTORS for kind in ("print", "ours"))),
            [(loss, *_side_by_side(*pair)) for loss, pair in both.items()],
        )
    )
    picture = draw(both, request.label, request.folder / "screen5.4.png")
    return FigureResult(tables, [picture], answers(both))


def _ours(
    loss: str, scores: Mapping[Setting, Mean], design: Mapping[str, tuple[int, ...]]
) -> dict[str, float] | None:
    """Return our effects; None while a setting has no score."""
    own = {row: scores[loss, row].mean for row in design if (loss, row) in scores}
    return effects(own, design) if len(own) == len(design) else None


def _side_by_side(theirs: dict[str, float], ours: dict[str, float] | None) -> list[str | None]:
    pairs = [(theirs[factor], ours[factor] if ours else None) for factor in FACTORS]
    return [None if value is None else f"{100 * value:+.2f}" for pair in pairs for value in pair]


def answers(both: Mapping[str, tuple[dict[str, float], dict[str, float] | None]]) -> list[str]:
    lines = []
    for loss, pair in both.items():
        for whose, found in zip(("the print", "ours"), pair, strict=True):
            if found is not None:
                largest = max(found, key=lambda factor: abs(found[factor]))
                lines.append(
                    f"{loss}, {whose}: the largest effect is that of {largest}, "
                    f"{100 * found[largest]:+.1f} points from its low to its high level."
                )
    return [*lines, "The text: ε has most effect, m none; lower λ and μ are better."]


def draw(
    both: Mapping[str, tuple[dict[str, float], dict[str, float] | None]], label: str, path: Path
) -> Path:
    figure, axes = canvas(len(both), width=3.8, sharey=True)
    for axis, (loss, pair) in zip(axes[0], both.items(), strict=True):
        for shift, name, colour, found in zip(
            (-0.2, 0.2), ("print", "ours"), (GREY, BLUE), pair, strict=True
        ):
            if found is not None:
                places = [place + shift for place in range(len(found))]
                axis.bar(places, [100 * each for each in found.values()], 0.38, color=colour, label=name)
        axis.axhline(0, color="black", lw=0.8)
        axis.set_xticks(
            range(len(FACTORS)), [f"{name}\n{low:g} → {high:g}" for name, (_, low, high) in FACTORS.items()]
        )
        axis.set_title(loss, fontsize=9)
        axis.legend(fontsize=8)
    axes[0][0].set_ylabel("main effect on MAP@R, points")
    return save(figure, path, f"Table 5.4, effects: print (CUB) and {label}")


STUDY = FigureStudy(
    about="The fractional factorial screening of GSP's m, μ, ε and λ: main effects, printed and ours",
    source="thesis, Table 5.4",
    run=run,
    data=DATA,
    seeds=3,
    rows=(C2, PNCA),
)
