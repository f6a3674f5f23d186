"""Fig. 3.6: the pool that greedy k-center picks proxies from. A pool of their number is random sampling."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from dmltune.reproduce.drawing import canvas, heat_map, save
from dmltune.reproduce.figures._data import CCP_DATA
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

PROXIES, POOLS = (1, 2, 4, 8), (1, 2, 4, 8, 12, 24)
GLYPH_PROXIES, GLYPH_POOLS = (1, 2, 4, 6), (1, 2, 4, 6, 9)  # a class has 6 pictures or more
Scores = Mapping[tuple[int, int], float]  # (proxies, pool size) → MAP@R, a mean over seeds


def run(request: FigureRequest) -> FigureResult:
    few = request.label == "glyphs"
    proxies: Sequence[int] = GLYPH_PROXIES if few else PROXIES
    pools: Sequence[int] = GLYPH_POOLS if few else POOLS
    if request.tiny:
        proxies, pools = proxies[1:2], pools[1:3]
    points = {
        f"proxies {count} pool {pool}": (count, pool) for count in proxies for pool in pools if pool >= count
    }
    plan = {
        name: ("references=ccp", f"references.proxies={count}", f"references.pool_size={pool}")
        for name, (count, pool) in points.items()
    }
    trained = request.train_each(plan)
    scores = {
        points[name]: statistics.fmean(cell.score for cell in cells.values())
        for name, cells in trained.items()
    }
    rows = [
        (count, pool, score, "random" if count == pool else "") for (count, pool), score in scores.items()
    ]
    table = FigureTable("", ("proxies", "pool size", "MAP@R %", "selection"), rows)
    picture = draw(scores, proxies, pools, request.label, request.folder / "fig3.6.png")
    return FigureResult([table], [picture], answers(scores))


def answers(scores: Scores) -> list[str]:
    """Return for each number of proxies what the largest pool gains over random sampling."""
    gains = []
    for count in sorted({count for count, _ in scores}):
        pools = sorted(pool for other, pool in scores if other == count)
        if len(pools) > 1:
            gain = scores[count, pools[-1]] - scores[count, pools[0]]
            gains.append(f"{count}: {100 * gain:+.1f} (pool {pools[0]} → {pools[-1]})")
    return [
        f"Points gained by choosing from the largest pool, by proxies of a class: {'; '.join(gains)}.",
        "The text: larger pools help, but not with one proxy; random sampling works well too.",
    ]


def draw(scores: Scores, proxies: Sequence[int], pools: Sequence[int], label: str, path: Path) -> Path:
    figure, axes = canvas(1, width=5.0)
    axis = axes[0][0]
    cells = {(proxies.index(count), pools.index(pool)): score for (count, pool), score in scores.items()}
    heat_map(axis, cells, [str(count) for count in proxies], [str(pool) for pool in pools])
    axis.set_xlabel("pool size (the number of proxies: random)")
    axis.set_ylabel("proxies of a class")
    return save(figure, path, f"Fig. 3.6 on {label}, MAP@R %")


STUDY = FigureStudy(
    about="CCP over the number of proxies and the size of the pool that they are picked from",
    source="thesis, Fig. 3.6",
    run=run,
    data=CCP_DATA,
)
