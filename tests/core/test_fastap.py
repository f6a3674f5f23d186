"""FastAP's closed-form gradient against autodiff of the histograms, and the loss where it is known.

(The contract of every loss, with the oracle of loops, is in test_every_loss.py.)
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dmltune.core import losses
from dmltune.core.geometry import l2_normalise, lip, pair_masks


def batch(
    seed: int, size: int, classes: int = 5, dim: int = 4, inside: bool = False
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    points = lip(0.6 * points) if inside else l2_normalise(points)
    return points, torch.randint(classes, (size,), generator=generator)


def by_histograms(x_BD: Tensor, y_RD: Tensor, positive_BR: Tensor, negative_BR: Tensor, bins: int) -> Tensor:
    """Eq. 6, 7 and 21 as they are written, with a (B, R, L+1) tensor; autodiff does the rest."""
    width = 4 / bins
    centres_L = torch.arange(bins + 1, dtype=x_BD.dtype) * width
    squared_BR1 = (2 - 2 * x_BD @ y_RD.mT).unsqueeze(-1)
    delta_BRL = (1 - (squared_BR1 - centres_L).abs() / width).relu()
    own_BL = (delta_BRL * positive_BR.unsqueeze(-1)).sum(1)
    all_BL = own_BL + (delta_BRL * negative_BR.unsqueeze(-1)).sum(1)
    up_to_BL = all_BL.cumsum(1)
    value_BL = own_BL.cumsum(1) * own_BL / torch.where(up_to_BL > 0, up_to_BL, 1)
    used_B = positive_BR.any(1) & negative_BR.any(1)
    return 1 - (value_BL.sum(1)[used_B] / positive_BR.sum(1)[used_B]).mean()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bins", [1, 2, 10, 37])
@pytest.mark.parametrize("inside", [False, True], ids=["unit", "lip"])
def test_the_closed_form_gradient_is_autodiff_of_the_histograms(seed: int, bins: int, inside: bool) -> None:
    points, labels = batch(seed, 44, inside=inside)
    loss = losses.load("fastap", bins=bins)
    for with_references in (False, True):
        gradients = []
        for ours in (True, False):
            x = points[:24].clone().requires_grad_()
            y = points[24:].clone().requires_grad_() if with_references else x
            others = (y, labels[24:]) if with_references else ()
            masks = pair_masks(labels[:24], *others[1:])
            value = loss(x, labels[:24], *others) if ours else by_histograms(x, y, *masks, bins)
            torch.autograd.backward(value)
            gradients.append([value.detach(), x.grad, y.grad])
        for mine, theirs in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-10)
        assert gradients[0][1].abs().max() > 1e-4


def test_it_is_the_loss_of_pytorch_metric_learning_when_every_query_has_a_positive_and_a_negative() -> None:
    pytest.importorskip("pytorch_metric_learning")
    from pytorch_metric_learning.losses import FastAPLoss

    raw, labels = torch.randn(30, 6, dtype=torch.float64), torch.arange(30) % 7
    values, gradients = [], []
    for loss in (losses.load("fastap", bins=12), FastAPLoss(num_bins=12)):
        x = raw.clone().requires_grad_()
        values.append(loss(l2_normalise(x), labels))
        torch.autograd.backward(values[-1])
        gradients.append(x.grad)
    torch.testing.assert_close(values[0], values[1], rtol=1e-12, atol=0)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-12)


def test_four_points_by_hand() -> None:
    # Query and positive at squared distance 1, negatives at 0.5 and 3; the centres are 0, 1, 2, 3, 4.
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    squared = torch.tensor([1.0, 0.5, 3.0], dtype=torch.float64)
    cosine = 1 - squared / 2
    refs = torch.stack([cosine, (1 - cosine**2).sqrt()], 1)
    value = losses.load("fastap", bins=4)(x, torch.tensor([0]), refs, torch.tensor([0, 1, 1]))
    assert value.item() == pytest.approx(
        1 - 1 * 1 / 2, abs=1e-12
    )  # Ĥ at centre 1: the positive and both halves


def test_a_perfect_ranking_costs_nothing_and_the_worst_costs_most() -> None:
    towards, away = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
    emb, labels = torch.cat([towards.expand(3, 2), away.expand(3, 2)]), torch.tensor([0, 0, 0, 1, 1, 1])
    loss = losses.load("fastap")
    assert loss(emb, labels).item() == pytest.approx(0, abs=1e-6)
    wrong = loss(
        towards, torch.tensor([0]), torch.cat([towards.expand(9, 2), away]), torch.tensor([1] * 9 + [0])
    )
    assert wrong.item() == pytest.approx(1 - 1 / 10, abs=1e-6)


def test_queries_without_a_positive_or_a_negative_are_dropped() -> None:
    points, _ = batch(1, 8)
    loss = losses.load("fastap")
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 7, 8])  # 7 and 8 ask nothing, and are negatives of the others
    alone = [
        loss(points[i : i + 1], labels[i : i + 1], points[others], labels[others]).item()
        for i in range(6)
        for others in [[j for j in range(8) if j != i]]
    ]
    assert loss(points, labels).item() == pytest.approx(sum(alone) / 6, abs=1e-14)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [5, 5, 5, 5]], ids=["no positives", "no negatives"])
def test_without_a_query_left_loss_and_gradient_are_zero(labels: list[int]) -> None:
    points, _ = batch(0, 4)
    points.requires_grad_()
    value = losses.load("fastap")(points, torch.tensor(labels))
    torch.autograd.backward(value)
    assert value.item() == 0
    assert points.grad is not None
    assert not points.grad.any()


@given(
    seed=st.integers(0, 10**6), size=st.integers(1, 20), classes=st.integers(1, 6), bins=st.integers(1, 20)
)
@settings(max_examples=60, deadline=None)
def test_it_lies_between_zero_and_one_and_a_step_against_the_gradient_lowers_it(
    seed: int, size: int, classes: int, bins: int
) -> None:
    points, labels = batch(seed, size, classes)
    loss = losses.load("fastap", bins=bins)
    points.requires_grad_()
    value = loss(points, labels)
    assert -1e-12 <= value.item() <= 1
    (slope,) = torch.autograd.grad(value, points)
    with torch.no_grad():
        assert loss(points - 1e-7 * slope, labels).item() <= value.item() + 1e-13


@pytest.mark.parametrize("positive", [True, False])
def test_on_a_centre_of_the_histogram_the_derivative_is_the_one_to_the_right(positive: bool) -> None:
    query = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0 if positive else 1, 0, 1, 1])
    loss = losses.load("fastap", bins=4)

    def at(squared: float) -> tuple[float, float]:
        """Loss and slope when the first reference is so far away."""
        cosines = 1 - torch.tensor([squared, 1.7, 1.2, 2.4], dtype=torch.float64) / 2
        refs = torch.stack([cosines, (1 - cosines**2).sqrt()], 1).requires_grad_()
        value = loss(query, torch.tensor([0]), refs, labels)
        return value.item(), float(torch.autograd.grad(value, refs)[0][0, 0]) / -2

    step = 1e-7
    (before, _), (value, slope), (after, _) = at(2.0 - step), at(2.0), at(2.0 + step)
    assert slope == pytest.approx((after - value) / step, abs=1e-6)
    assert abs(slope - (value - before) / step) > 1e-3


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that comes to be."""

    entries = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else [result]:
            if isinstance(part, Tensor):
                self.entries = max(self.entries, part.numel())
        return result


def test_no_tensor_is_larger_than_the_pairs_however_many_bins_there_are() -> None:
    x, labels = batch(0, 30)
    y, ref_labels = batch(1, 50)
    x.requires_grad_()
    with Largest() as seen:
        torch.autograd.backward(losses.load("fastap", bins=25)(x, labels, y, ref_labels))
    assert seen.entries == 30 * 50
