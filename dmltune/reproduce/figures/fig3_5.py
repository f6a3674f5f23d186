"""Fig. 3.5: MAP@R over λ and the number of proxies, λ = 0 included, as a Gaussian process sees it.

The text's points are those of a Bayesian search, ours a grid: every part of the surface has points, and λ = 0
has a column of its own, which a logarithmic scale does not have.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from pathlib import Path

from dmltune.reproduce.drawing import canvas, heat_map, save
from dmltune.reproduce.figures._data import CCP_DATA
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

LAMBDAS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PROXIES = (1, 2, 4, 6, 8)
Scores = Mapping[tuple[float, int], float]  # (λ, proxies) → MAP@R, a mean over seeds


def run(request: FigureRequest) -> FigureResult:
    pool_size = request.experiment("references=ccp").references.parameters["pool_size"]
    lambdas = (0.0, 1e-3) if request.tiny else LAMBDAS
    proxies = [count for count in PROXIES if count <= pool_size][: 2 if request.tiny else None]
    points = {
        f"lambda {weight:g} proxies {count}": (weight, count) for weight in lambdas for count in proxies
    }
    plan = {
        name: ("references=ccp", f"references.lambda={weight}", f"references.proxies={count}")
        for name, (weight, count) in points.items()
    }
    trained = request.train_each(plan)
    scores = {
        points[name]: statistics.fmean(cell.score for cell in cells.values())
        for name, cells in trained.items()
    }
    projections = {
        points[name]: statistics.fmean(cell.curve[-1]["projection"] for cell in cells.values())
        for name, cells in trained.items()
    }
    rows = [
        (f"{weight:g}", count, scores[weight, count], projections[weight, count]) for weight, count in scores
    ]
    table = FigureTable(
        f"pool size {pool_size}, {request.seeds} seed{'s' * (request.seeds > 1)}",
        ("λ", "proxies", "MAP@R %", "projections"),
        rows,
    )
    picture = draw(scores, lambdas, proxies, request.label, request.folder / "fig3.5.png")
    return FigureResult([table], [picture], answers(scores))


def answers(scores: Scores) -> list[str]:
    """Return the best point, and what λ = 0 and one proxy cost on average."""
    best = max(scores, key=lambda point: scores[point])
    lines = [f"Best: λ = {best[0]:g} with {best[1]} proxies, {100 * scores[best]:.1f} %."]
    by_lambda = _means(scores, 0)
    if 0.0 in by_lambda and len(by_lambda) > 1:
        top = max((weight for weight in by_lambda if weight), key=lambda weight: by_lambda[weight])
        lines.append(
            f"Mean over the numbers of proxies: λ = 0 {100 * by_lambda[0.0]:.1f} %, λ = {top:g} (the best) "
            f"{100 * by_lambda[top]:.1f} %, λ = {max(by_lambda):g} (the largest) "
            f"{100 * by_lambda[max(by_lambda)]:.1f} %. The text: no λ and a large λ are worse."
        )
    by_count = _means(scores, 1)
    listed = ", ".join(f"{int(count)}: {100 * mean:.1f} %" for count, mean in by_count.items())
    return [*lines, f"Mean over λ by proxies of a class: {listed}. The text: more are better, saturating."]


def _means(scores: Scores, part: int) -> dict[float, float]:
    """Return the mean score for each value of λ (part 0) or of the proxies (part 1)."""
    values = sorted({point[part] for point in scores})
    return {
        value: statistics.fmean(score for point, score in scores.items() if point[part] == value)
        for value in values
    }


def draw(scores: Scores, lambdas: tuple[float, ...], proxies: list[int], label: str, path: Path) -> Path:
    """Draw the grid's scores, and the surface of a Gaussian process through those with λ > 0."""
    figure, axes = canvas(2, width=4.4)
    grid, surface = axes[0]
    cells = {
        (proxies.index(count), lambdas.index(weight)): score for (weight, count), score in scores.items()
    }
    heat_map(grid, cells, [str(count) for count in proxies], [f"{weight:g}" for weight in lambdas])
    grid.set_xlabel("λ")
    grid.set_ylabel("proxies of a class")
    grid.set_title("measured, MAP@R %", fontsize=9)
    inner = {point: score for point, score in scores.items() if point[0] > 0}
    if len(inner) > 3:
        across, up, mean = gaussian_process(inner)
        filled = surface.contourf(across, up, 100 * mean, levels=12, cmap="viridis")
        surface.scatter([math.log10(w) for w, _ in inner], [math.log2(k) for _, k in inner], c="white", s=12)
        figure.colorbar(filled, ax=surface)
        surface.set_yticks([math.log2(count) for count in proxies], [str(count) for count in proxies])
        surface.set_xlabel("log₁₀ λ")
        surface.set_title("Gaussian process, mean", fontsize=9)
    else:
        surface.set_axis_off()
    return save(figure, path, f"Fig. 3.5 on {label}")


def gaussian_process(scores: Scores):  # type: ignore[no-untyped-def]
    """Return axes and posterior mean over (log₁₀ λ, log₂ proxies): RBF with a length for each, and noise."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    points_N2 = np.array([(math.log10(weight), math.log2(count)) for weight, count in scores])
    kernel = ConstantKernel() * RBF((1.5, 1.5), (0.3, 30)) + WhiteKernel(0.1, (1e-3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a flat surface has a length at its bound
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(points_N2, list(scores.values()))
    low, high = points_N2.min(0), points_N2.max(0)
    across, up = (np.linspace(low[part], high[part], 60) for part in (0, 1))
    grid_M2 = np.stack(np.meshgrid(across, up), -1).reshape(-1, 2)
    return across, up, process.predict(grid_M2).reshape(60, 60)


STUDY = FigureStudy(
    about="CCP over λ and the number of proxies, λ = 0 included: a surface of MAP@R",
    source="thesis, Fig. 3.5",
    run=run,
    data=CCP_DATA,
)
