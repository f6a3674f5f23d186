"""Generalized sum pooling, forward and backward: ours against autodiff through 100 printed passes and
against average pooling.

    python benchmarks/gsp.py [--rounds 20]

Two parts: the transport, from costs to plan and residual, which has targets; and the whole pooling, where
both sides spend most of their time in the same `lip` and distances, which has none. The autodiff side sums
exp(−ε c) over the prototypes once, not in every pass as proposition 5.2.1 is printed. The sides take turns,
a few calls each a round, on one thread, in seconds of processor time, so that what else the machine does
matters little. A ratio is the median of those of the rounds, with their 10 % and 90 % quantiles. Memory is
what autograd keeps between forward and backward; the least a transport can keep is one array of the size
of the plan.
"""

from __future__ import annotations

import argparse
import itertools
import statistics

import torch
from targets import Targets
from torch import Tensor

from dmltune.core.geometry import lip, pairwise_distance
from dmltune.core.poolings.gsp import generalized_sum_pool, transport
from dmltune.reproduce.figures.fig5_9 import (
    Forward,
    bytes_between,
    seconds_of,
    unrolled_pool,
    unrolled_transport,
)

BATCH, DIM, EPSILON, PASSES, CALLS = 32, 128, 5.0, 100, 5


def ratios(above: list[float], below: list[float]) -> tuple[float, str]:
    each = [a / b for a, b in zip(above, below, strict=True)]
    tenths = statistics.quantiles(each, n=10)
    median = statistics.median(each)
    return median, f"{median:.1f} ({tenths[0]:.1f} to {tenths[-1]:.1f})"


def compare(
    name: str, inputs: tuple[Tensor, ...], sides: dict[str, Forward], rounds: int
) -> tuple[float, float]:
    """(time of autodiff / ours, numbers that ours keeps); prints a line."""
    for forward in sides.values():
        seconds_of(forward, inputs, CALLS)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, forward in sides.items():
            seconds[side].append(seconds_of(forward, inputs, CALLS))
    faster, text = ratios(seconds["autodiff"], seconds["ours"])
    if "average" in sides:
        text += f", ours / average {ratios(seconds['ours'], seconds['average'])[1]}"
    mine, theirs = (bytes_between(sides[side], inputs) for side in ("ours", "autodiff"))
    print(
        f"{name}: ours {1e3 * statistics.median(seconds['ours']):.2f} ms, autodiff / ours {text}; "
        f"keeps {mine / 2**20:.2f} MiB, autodiff / ours {theirs / mine:.1f}",
        flush=True,
    )
    return faster, mine / 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transports = []
    for count, prototypes, mu in itertools.product((49, 64), (64, 128), (0.3, 0.99)):
        name = f"N {count}, M {prototypes}, μ {mu}"
        features_BND = (torch.randn(BATCH, count, DIM) * 0.1).requires_grad_()
        prototypes_MD = (torch.randn(prototypes, DIM) * 0.1).requires_grad_()
        distance_LM = pairwise_distance(lip(features_BND).flatten(0, 1), lip(prototypes_MD))
        cost_BMN = distance_LM.detach().unflatten(0, (-1, count)).mT.requires_grad_()
        sides: dict[str, Forward] = {
            "ours": lambda c=cost_BMN, m=mu: transport(c, m, EPSILON),
            "autodiff": lambda c=cost_BMN, m=mu: unrolled_transport(c, m, EPSILON, PASSES),
        }
        faster, kept = compare(f"transport, {name}", (cost_BMN,), sides, chosen.rounds)
        transports.append((faster, kept / cost_BMN.numel()))
        points = (features_BND, prototypes_MD)
        sides = {
            "ours": lambda p=points, m=mu: generalized_sum_pool(*p, m, EPSILON)[:2],
            "autodiff": lambda p=points, m=mu: unrolled_pool(*p, m, EPSILON, PASSES),
            "average": lambda p=points: (p[0].mean(1),),
        }
        compare(f"pooling, {name}", points, sides, chosen.rounds)
    targets = Targets()
    targets.check("time of the transport, autodiff / ours, worst case", min(t[0] for t in transports), "≥", 5)
    targets.check("its memory / the size of the plan, worst case", max(t[1] for t in transports), "≤", 1.1)
    targets.end()


if __name__ == "__main__":
    main()
