"""Settings trained with several seeds: the cells of each, their mean, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmltune.reproduce.drawing import GREY, mean_and_spread
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.table_studies import key_of
from dmltune.reproduce.trainings import CellResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Setting = tuple[str | float | int, ...]
Cells = dict[Setting, list[CellResult]]
C2, PNCA = "C2", "PNCA"
LOSSES = {C2: ("loss=contrastive",), PNCA: ("loss=proxy_nca",)}  # with the presets of the space


@dataclass(frozen=True)
class Mean:
    """The mean over seeds and the standard deviation (0 for one)."""

    mean: float
    spread: float
    seeds: int


def train_settings(
    request: FigureRequest, settings: Mapping[Setting, Sequence[str]], *, test: bool = False
) -> Cells:
    """Train each setting with every seed of the request; settings whose trainings all failed are left out."""
    names = {cell_name(setting): setting for setting in settings}
    assert len(names) == len(settings), "two settings have one name"
    plan = {name: settings[setting] for name, setting in names.items()}
    trained = request.train_each(plan, test=test)
    return {names[name]: list(cells.values()) for name, cells in trained.items()}


def cell_name(setting: Setting) -> str:
    """Return ("C2", "mu", 0.3) as `C2-mu-0.3`."""
    return key_of("-".join(f"{part:g}" if isinstance(part, float) else str(part) for part in setting))


def means(
    cells: Cells, measure: Callable[[CellResult], float] = lambda cell: cell.score
) -> dict[Setting, Mean]:
    """Return the mean of each setting, by default of the best validation score."""
    figures = {setting: [measure(cell) for cell in group] for setting, group in cells.items()}
    return {setting: Mean(*mean_and_spread(group), len(group)) for setting, group in figures.items()}


def draw_line(
    axis: Axes, xs: Sequence[float], ys: Sequence[Mean], colour: str, label: str, marker: str = "o"
) -> None:
    """Draw means in percent with the spread as a shade."""
    middle = [100 * y.mean for y in ys]
    axis.plot(xs, middle, marker=marker, ms=4, lw=1.4, color=colour, label=label)
    low, high = ([100 * (y.mean + sign * y.spread) for y in ys] for sign in (-1, 1))
    axis.fill_between(xs, low, high, color=colour, alpha=0.18, lw=0)


def draw_level(axis: Axes, level: Mean, label: str, colour: str = GREY) -> None:
    """Draw one mean in percent as a horizontal line with its spread."""
    axis.axhline(100 * level.mean, color=colour, ls="--", lw=1.1, label=label)
    if level.spread:
        axis.axhspan(
            100 * (level.mean - level.spread),
            100 * (level.mean + level.spread),
            color=colour,
            alpha=0.13,
            lw=0,
        )


def difference(a: Mean, b: Mean) -> str:
    """Return `+1.2 points (sd of the seeds 0.3)`; a single seed says nothing of the spread."""
    noise = f" (sd of the seeds {100 * max(a.spread, b.spread):.1f})" if min(a.seeds, b.seeds) > 1 else ""
    return f"{100 * (a.mean - b.mean):+.1f} points{noise}"
