"""What the triplet loss promises beyond the contract of every loss."""

from __future__ import annotations

import pytest
import torch

from dmltune.core import losses
from dmltune.core.geometry import l2_normalise


@pytest.mark.parametrize(("margin", "expected"), [(0.5, 0.0), (0.75, 0.25), (1.5, 0.75)])
def test_a_triplet_at_the_hinge_is_zero_and_does_not_count(margin: float, expected: float) -> None:
    """d_ap = 1, d_an = 1.5 and 2: the gaps are margin − 0.5 and margin − 1, all exact in binary."""
    emb_BD = torch.tensor([[0.0]], requires_grad=True)
    refs_RD = torch.tensor([[1.0], [-1.5], [-2.0]], requires_grad=True)
    value = losses.load("triplet", margin=margin)(emb_BD, torch.tensor([0]), refs_RD, torch.tensor([0, 1, 1]))
    torch.autograd.backward(value)
    assert value.item() == expected
    assert refs_RD.grad is not None
    assert refs_RD.grad.any() == (expected > 0)


def test_float32_keeps_its_digits_over_sixty_million_triplets() -> None:
    labels_B = torch.arange(640) % 2
    emb_BD = l2_normalise(torch.randn(640, 16, dtype=torch.float64) + labels_B.unsqueeze(1) * 0.8)
    values, gradients = [], []
    for dtype in (torch.float64, torch.float32):
        x = emb_BD.detach().to(dtype, copy=True).requires_grad_()
        value = losses.load("triplet", margin=0.1)(x, labels_B)
        torch.autograd.backward(value)
        assert x.grad is not None
        values.append(value.item())
        gradients.append(x.grad.double())
    assert values[1] == pytest.approx(values[0], rel=1e-6)
    torch.testing.assert_close(
        gradients[1], gradients[0], rtol=0, atol=1e-4 * float(gradients[0].abs().max())
    )
