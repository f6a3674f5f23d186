"""Fig. 5.2: what the pooling weights do on a map with two kinds of features and a background.

A 10 × 10 map of colours has 5 × 5 reddish and 5 × 5 bluish features; the prototypes are red and blue, so a
share of 0.5 is to be pooled. (P1) takes exactly the share μ, (P2) is smooth: with a μ that is too small it
still reaches every feature of the two regions.

N positions, M prototypes.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from dmltune.core.geometry import lip, pairwise_distance
from dmltune.core.poolings.gsp import transport
from dmltune.reproduce.drawing import canvas, save
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

SIDE, REGION = 10, 5
PROTOTYPES_MD = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
MUS, EPSILONS = (0.2, 0.5, 0.8), (20.0, 5.0, 1.0)
SHADES = 0.35  # how far a reddish, bluish or greenish feature is from the pure colour, per channel, at most


def coloured_map(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return colours (side, side, 3) and whether a position is reddish or bluish."""
    generator = torch.Generator().manual_seed(seed)
    pure = torch.zeros(SIDE, SIDE, 3, dtype=torch.float64)
    pure[..., 1] = 1
    for start, colour in ((0, PROTOTYPES_MD[0]), (SIDE - REGION, PROTOTYPES_MD[1])):
        pure[start : start + REGION, start : start + REGION] = colour
    shade = SHADES * torch.rand(pure.shape, generator=generator, dtype=torch.float64)
    return (pure - shade).abs(), pure[..., 1] == 0


def linear_programme_weights(cost_MN: Tensor, mu: float) -> Tensor:
    """Return p (N,) of (P1), exactly: the share μ of the positions with the nearest prototypes.

    Of P1's conditions only Σ π = μ couples the positions, so each sends its 1/N to its nearest prototype, in
    the order of the costs, until the share is full.
    """
    nearest_N = cost_MN.amin(0)
    count = len(nearest_N)
    left = mu * count
    taken_N = torch.zeros_like(nearest_N)
    for place in nearest_N.argsort(stable=True).tolist():
        taken_N[place] = min(1.0, left)
        left -= float(taken_N[place])
    return taken_N / (mu * count)


def smooth_weights(cost_MN: Tensor, mu: float, epsilon: float) -> Tensor:
    """Return p (N,) of (P2), eq. 5.2.1."""
    residual_N = transport(cost_MN.unsqueeze(0), mu, epsilon).residual_BN.squeeze(0)
    return (1 / cost_MN.shape[1] - residual_N) / mu


def run(request: FigureRequest) -> FigureResult:
    colours, wanted = coloured_map()
    features_ND, wanted_N = colours.flatten(0, 1), wanted.flatten()
    cost_MN = pairwise_distance(lip(PROTOTYPES_MD), lip(features_ND))
    weights: dict[tuple[float, float | None], Tensor] = {}
    for mu in MUS:
        weights[mu, None] = linear_programme_weights(cost_MN, mu)
        weights |= {(mu, epsilon): smooth_weights(cost_MN, mu, epsilon) for epsilon in EPSILONS}
    rows = []
    for (mu, epsilon), p_N in weights.items():
        reached = int((p_N[wanted_N] > 0.5 / len(p_N)).sum())  # more than half of what average pooling gives
        problem = "linear programme" if epsilon is None else f"ε {epsilon:g}"
        rows.append((mu, problem, float(p_N[wanted_N].sum()), reached, float(p_N[~wanted_N].sum())))
    columns = ("μ", "problem", "weight of both regions %", "features reached, of 50", "of the background %")
    picture = draw(colours, weights, request.folder / "fig5.2.png")
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(rows))


def answers(rows: list[tuple[float, str, float, int, float]]) -> list[str]:
    reached = {(mu, problem): count for mu, problem, _, count, _ in rows}
    share = {(mu, problem): background for mu, problem, _, _, background in rows}
    return [
        f"μ = 0.2 is too small (0.5 is right): the linear programme takes {reached[0.2, 'linear programme']} "
        f"of the 50 coloured features, the smooth problem with ε = 5 takes {reached[0.2, 'ε 5']} and gives "
        f"{100 * share[0.2, 'ε 5']:.0f} % of the weight to the background.",
        f"μ = 0.8 is too large: both must take background, {100 * share[0.8, 'linear programme']:.0f} % and "
        f"{100 * share[0.8, 'ε 5']:.0f} % of the weight. A smaller ε is nearer to average pooling (50 %).",
    ]


def draw(colours: Tensor, weights: dict[tuple[float, float | None], Tensor], path: Path) -> Path:
    problems = (None, *EPSILONS)
    figure, axes = canvas(1 + len(problems), len(MUS), width=1.7, height=1.8)
    for row, mu in zip(axes, MUS, strict=True):
        row[0].imshow(colours.numpy())
        row[0].set_ylabel(f"μ = {mu:g}", fontsize=10)
        row[0].set_title("features" if mu == MUS[0] else "", fontsize=9)
        for axis, epsilon in zip(row[1:], problems, strict=True):
            map_HW = weights[mu, epsilon].view(SIDE, SIDE).numpy()
            axis.imshow(map_HW, cmap="Greys", vmin=0, vmax=1 / (mu * SIDE**2))
            title = "linear programme" if epsilon is None else f"ε = {epsilon:g}"
            axis.set_title(title if mu == MUS[0] else "", fontsize=9)
        for axis in row:
            axis.set_xticks([])
            axis.set_yticks([])
    return save(
        figure, path, "Fig. 5.2: pooling weights, the higher the darker (black: the largest possible)"
    )


STUDY = FigureStudy(
    about="Toy: pooling weights of the linear programme and of the smooth problem on a map of colours",
    source="thesis, Fig. 5.2",
    run=run,
)
