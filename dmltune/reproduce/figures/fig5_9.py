"""Fig. 5.9: the cost of k passes of proposition 5.2.1, by closed-form gradient and by autodiff.

Measured on the pooling layer alone: 32 maps of 7 × 7 with 128 channels (BN-Inception at 227 pixels, C2), 64
prototypes. Seconds are of the processor, on one thread, so that what else the machine does matters little.

B images, N positions, M prototypes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from dmltune.core.geometry import lip, pairwise_distance
from dmltune.core.poolings.gsp import generalized_sum_pool
from dmltune.core.threads import torch_threads
from dmltune.reproduce.drawing import BLUE, GREEN, GREY, ORANGE, canvas, mean_and_spread, save
from dmltune.reproduce.request import FigureRequest
from dmltune.reproduce.study import FigureResult, FigureStudy, FigureTable

PASSES = (1, 5, 10, 25, 50, 100, 200)
BATCH, POSITIONS, DIM, PROTOTYPES, MU, EPSILON = 32, 49, 128, 64, 0.3, 5.0
ROUNDS = 20
CLOSED, AUTOMATIC, SOLVED, AVERAGE = "closed form", "automatic differentiation", "solved (ours)", "GAP"
COLOURS = {CLOSED: BLUE, AUTOMATIC: ORANGE, SOLVED: GREEN, AVERAGE: GREY}
Forward = Callable[[], Sequence[Tensor]]
Case = tuple[str, int | None]  # method, passes


def unrolled_transport(cost_BMN: Tensor, mu: float, epsilon: float, passes: int) -> tuple[Tensor, Tensor]:
    """Return (π, ρ) after the passes of proposition 5.2.1 from t = 1, each of them in the graph.

    exp(−ε c) is summed over the prototypes once, not in every pass as it is printed.
    """
    count = cost_BMN.shape[-1]
    kernel_BMN = (-epsilon * cost_BMN).exp()
    near_BN = kernel_BMN.sum(1)
    t_B1 = near_BN.new_ones(len(near_BN), 1)
    for _ in range(passes):
        residual_BN = 1 / count / (1 + t_B1 * near_BN)
        t_B1 = mu / (near_BN * residual_BN).sum(-1, keepdim=True)
    return (t_B1 * residual_BN).unsqueeze(1) * kernel_BMN, residual_BN


def unrolled_pool(
    features_BND: Tensor, prototypes_MD: Tensor, mu: float, epsilon: float, passes: int
) -> tuple[Tensor, Tensor]:
    """Return pooled features and attributes, as `generalized_sum_pool` does, through `unrolled_transport`."""
    count = features_BND.shape[1]
    distance_LM = pairwise_distance(lip(features_BND).flatten(0, 1), lip(prototypes_MD))
    cost_BMN = distance_LM.view(len(features_BND), count, -1).mT
    plan_BMN, residual_BN = unrolled_transport(cost_BMN, mu, epsilon, passes)
    weights_BN = (1 / count - residual_BN) / mu
    return (weights_BN.unsqueeze(1) @ features_BND).squeeze(1), plan_BMN.sum(-1) / mu


def seconds_of(forward: Forward, inputs: tuple[Tensor, ...], calls: int = 1) -> float:
    """Return the processor seconds of one forward and backward."""
    start = time.process_time()
    for _ in range(calls):
        outputs = forward()
        torch.autograd.grad(outputs, inputs, [torch.ones_like(o) for o in outputs], allow_unused=True)
    return (time.process_time() - start) / calls


def bytes_between(forward: Forward, inputs: tuple[Tensor, ...]) -> int:
    """Return what autograd holds for the backward beyond the inputs, every storage once."""
    storages: dict[int, int] = {}

    def hold(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(hold, lambda tensor: tensor):
        outputs = forward()  # alive to the end: no storage is used again
    assert all(output.isfinite().all() for output in outputs)
    known = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    return sum(size for pointer, size in storages.items() if pointer not in known)


def solved_pool(features_BND: Tensor, prototypes_MD: Tensor, passes: int | None) -> tuple[Tensor, Tensor]:
    """Return pooled features and attributes with the closed-form gradient."""
    return generalized_sum_pool(features_BND, prototypes_MD, MU, EPSILON, passes)[:2]


def cases(inputs: tuple[Tensor, Tensor], passes: Sequence[int]) -> dict[Case, Forward]:
    """Return what is measured."""
    measured: dict[Case, Forward] = {
        (AVERAGE, None): lambda: (inputs[0].mean(1),),
        (SOLVED, None): partial(solved_pool, *inputs, None),
    }
    for k in passes:
        measured[CLOSED, k] = partial(solved_pool, *inputs, k)
        measured[AUTOMATIC, k] = partial(unrolled_pool, *inputs, MU, EPSILON, k)
    return measured


def run(request: FigureRequest) -> FigureResult:
    passes, rounds = (PASSES[:2], 2) if request.tiny else (PASSES, ROUNDS)
    torch.manual_seed(0)
    features_BND = torch.randn(BATCH, POSITIONS, DIM) * DIM**-0.5  # about unit vectors
    places = torch.randperm(BATCH * POSITIONS)[:PROTOTYPES]  # prototypes are near features, as in training
    prototypes_MD = features_BND.flatten(0, 1)[places] + 0.3 * DIM**-0.5 * torch.randn(PROTOTYPES, DIM)
    inputs = (features_BND.requires_grad_(), prototypes_MD.requires_grad_())
    measured = cases(inputs, passes)
    seconds: dict[Case, list[float]] = {case: [] for case in measured}
    with torch_threads(1):
        for number in range(rounds + 1):  # the first one only warms up; the cases take turns
            for case, forward in measured.items():
                value = seconds_of(forward, inputs)
                if number:
                    seconds[case].append(value)
        held = {case: bytes_between(forward, inputs) for case, forward in measured.items()}
        solution = measured[SOLVED, None]()[1].detach()
        errors = {case: _error(forward()[-1].detach(), solution) for case, forward in measured.items()}
    times = {case: mean_and_spread([1e3 * each for each in values]) for case, values in seconds.items()}
    rows = [
        (
            method,
            k,
            *times[method, k],
            held[method, k] / 2**20,
            None if method == AVERAGE else errors[method, k],
        )
        for method, k in measured
    ]
    columns = ("method", "k", "ms", "sd", "MiB held", "error of z")
    picture = draw(times, held, request.folder / "fig5.9.png")
    return FigureResult([FigureTable("", columns, rows)], [picture], answers(times, held))


def _error(attributes: Tensor, solution: Tensor) -> float | None:
    """Return Σ |z − z*| averaged over the images (both sum to 1)."""
    return float((attributes - solution).abs().sum(-1).mean()) if attributes.shape == solution.shape else None


def answers(times: Mapping[Case, tuple[float, float]], held: Mapping[Case, int]) -> list[str]:
    ks = sorted(k for method, k in times if method == CLOSED and k is not None)
    low, high = ks[0], ks[-1]
    growth = {method: times[method, high][0] - times[method, low][0] for method in (CLOSED, AUTOMATIC)}
    return [
        f"From k = {low} to {high} the layer takes {growth[CLOSED]:.1f} ms more with the closed form and "
        f"{growth[AUTOMATIC]:.1f} ms more with automatic differentiation; it holds "
        f"{held[CLOSED, high] / 2**20:.1f} and {held[AUTOMATIC, high] / 2**20:.1f} MiB for the backward.",
        f"The solver without a fixed k takes {times[SOLVED, None][0]:.1f} ms, average pooling "
        f"{times[AVERAGE, None][0]:.1f} ms. The text: k matters little with the closed form, much without.",
    ]


def draw(times: Mapping[Case, tuple[float, float]], held: Mapping[Case, int], path: Path) -> Path:
    figure, axes = canvas(2)
    for axis, unit in zip(axes[0], ("ms", "MiB"), strict=True):
        for method, colour in COLOURS.items():
            ks = sorted(k for name, k in times if name == method and k is not None)
            if unit == "ms":
                values = {case: times[case] for case in times}
            else:
                values = {case: (held[case] / 2**20, 0.0) for case in held}
            if ks:
                ys = [values[method, k] for k in ks]
                axis.plot(ks, [y for y, _ in ys], marker="o", ms=4, color=colour, label=method)
                axis.fill_between(
                    ks, [y - s for y, s in ys], [y + s for y, s in ys], color=colour, alpha=0.2, lw=0
                )
            else:
                axis.axhline(values[method, None][0], color=colour, ls="--", lw=1.1, label=method)
        axis.set_xlabel("k, the passes of proposition 5.2.1")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("forward and backward of the layer, ms")
    axes[0][1].set_ylabel("held for the backward, MiB")
    axes[0][0].legend(fontsize=8)
    return save(figure, path, f"Fig. 5.9: {BATCH} maps of {POSITIONS} positions, {PROTOTYPES} prototypes")


STUDY = FigureStudy(
    about="What k passes cost: closed-form gradient against automatic differentiation of the pooling",
    source="thesis, Fig. 5.9",
    run=run,
)
