"""The zero-shot prediction loss against a ridge regression in Python loops and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmltune.core.zero_shot import ZeroShot, zero_shot_loss

CLASSES, ATTRIBUTES, DIM = 6, 4, 3
Matrix = list[list[float]]


def problem(labels: list[int], seed: int = 0, sharpness: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
    """Pseudo-attributes of the simplex, labels, label embeddings."""
    generator = torch.Generator().manual_seed(seed)
    logits_BM = torch.randn(len(labels), ATTRIBUTES, generator=generator, dtype=torch.float64)
    embeddings_CD = torch.randn(CLASSES, DIM, generator=generator, dtype=torch.float64)
    return torch.softmax(sharpness * logits_BM, 1), torch.tensor(labels), embeddings_CD


def solved(system: Matrix, right: Matrix) -> Matrix:
    """Gauss–Jordan elimination; the system is positive definite."""
    rows = [[*left, *values] for left, values in zip(system, right, strict=True)]
    for k, pivot in enumerate(rows):
        rows[k] = pivot = [value / pivot[k] for value in pivot]
        for i, row in enumerate(rows):
            if i != k:
                rows[i] = [value - row[k] * other for value, other in zip(row, pivot, strict=True)]
    return [row[len(system) :] for row in rows]


def by_loops(
    z: Matrix, labels: list[int], upsilon: Matrix, first: list[bool], ridge: float, scale: float
) -> float:
    """The primal form (ZᵀZ + ridge·I)⁻¹ZᵀΥ of (P3), and eq. 5.2.4 as a mean over the batch."""
    total, size, dim = 0.0, len(z[0]), len(upsilon[0])
    for part in (True, False):
        fit = [i for i, flag in enumerate(first) if flag != part]
        system = [
            [sum(z[i][a] * z[i][b] for i in fit) + (ridge if a == b else 0.0) for b in range(size)]
            for a in range(size)
        ]
        right = [[sum(z[i][a] * upsilon[labels[i]][d] for i in fit) for d in range(dim)] for a in range(size)]
        attribute_embeddings = solved(system, right)
        for i in (i for i, flag in enumerate(first) if flag == part):
            predicted = [sum(z[i][a] * attribute_embeddings[a][d] for a in range(size)) for d in range(dim)]
            logits = [scale * sum(p * v for p, v in zip(predicted, row, strict=True)) for row in upsilon]
            others = (math.exp(x - logits[labels[i]]) for j, x in enumerate(logits) if j != labels[i])
            total += math.log(1 + sum(others))
    return total / len(z)


@pytest.mark.parametrize("labels", [[0, 0, 3, 3, 5, 5], [4, 1, 4, 1, 2, 0, 0, 5], [1, 3], [2, 2, 2, 0]])
@pytest.mark.parametrize(("ridge", "scale"), [(0.05, 9.5), (1.3, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_it_equals_a_ridge_regression_by_loops(
    labels: list[int], ridge: float, scale: float, seed: int
) -> None:
    z_BM, labels_B, embeddings_CD = problem(labels, seed)
    ranks = sorted(set(labels))
    first = [ranks.index(label) % 2 == 0 for label in labels]
    expected = by_loops(z_BM.tolist(), labels, embeddings_CD.tolist(), first, ridge, scale)
    value = zero_shot_loss(z_BM, labels_B, embeddings_CD, ridge, scale)
    assert value.dim() == 0
    assert value.item() == pytest.approx(expected, rel=1e-11)
    mask_B = labels_B == labels[0]
    expected = by_loops(z_BM.tolist(), labels, embeddings_CD.tolist(), mask_B.tolist(), ridge, scale)
    value = zero_shot_loss(z_BM, labels_B, embeddings_CD, ridge, scale, split=mask_B)
    assert value.item() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("labels", [[0, 0, 3, 3, 5, 5], [2, 0, 0], [1, 2, 3, 4, 5]])
def test_its_gradient_is_that_of_finite_differences_for_attributes_and_label_embeddings(
    labels: list[int],
) -> None:
    z_BM, labels_B, embeddings_CD = problem(labels)
    inputs = (z_BM.requires_grad_(), embeddings_CD.requires_grad_())
    assert torch.autograd.gradcheck(lambda z, v: zero_shot_loss(z, labels_B, v), inputs)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(9)), classes=st.integers(2, CLASSES))
@settings(max_examples=25, deadline=None)
def test_permuting_the_batch_or_swapping_the_parts_leaves_it_unchanged(
    seed: int, order: list[int], classes: int
) -> None:
    labels = torch.randint(classes, (9,), generator=torch.Generator().manual_seed(seed)).tolist()
    z_BM, labels_B, embeddings_CD = problem(labels, seed)
    expected = zero_shot_loss(z_BM, labels_B, embeddings_CD)
    torch.testing.assert_close(zero_shot_loss(z_BM[order], labels_B[order], embeddings_CD), expected)
    first_B = torch.isin(labels_B, torch.unique(labels_B)[::2])
    for split in (first_B, ~first_B):
        torch.testing.assert_close(zero_shot_loss(z_BM, labels_B, embeddings_CD, split=split), expected)


def test_a_class_is_predicted_only_by_what_other_classes_show() -> None:
    z_BM, labels_B, embeddings_CD = problem([0, 0, 1, 1])
    z_BM.requires_grad_()
    value = zero_shot_loss(z_BM, labels_B, embeddings_CD)
    flat_BM = z_BM.detach().clone()
    flat_BM[2:] = 0  # class 1 shows nothing: nothing to fit from, so class 0 is guessed
    (uninformed,) = torch.autograd.grad(
        zero_shot_loss(flat_BM.requires_grad_(), labels_B, embeddings_CD), flat_BM
    )
    assert torch.equal(uninformed[:2], torch.zeros(2, ATTRIBUTES, dtype=torch.float64))
    assert value.item() != pytest.approx(math.log(CLASSES))


@pytest.mark.parametrize("labels", [[3, 3, 3], [5]], ids=["one class", "a lone sample"])
def test_one_class_gives_zero_with_gradient_zero(labels: list[int]) -> None:
    z_BM, labels_B, embeddings_CD = problem(labels)
    inputs = (z_BM.requires_grad_(), embeddings_CD.requires_grad_())
    value = zero_shot_loss(z_BM, labels_B, embeddings_CD)
    assert value.item() == 0
    for grad in torch.autograd.grad(value, inputs):
        assert torch.equal(grad, torch.zeros_like(grad))


def test_a_prediction_that_is_far_off_still_has_a_gradient() -> None:
    z_BM, labels_B, embeddings_CD = problem([0, 0, 1, 1, 2, 2])
    rough_BM = z_BM.float().requires_grad_()
    value = zero_shot_loss(rough_BM, labels_B, embeddings_CD.float(), scale=1e4)
    (grad,) = torch.autograd.grad(value, rough_BM)
    assert value > 100
    assert grad.isfinite().all()
    assert grad.abs().max() > 1


@pytest.mark.parametrize("sharpness", [0.0, 0.1, 1.0, 100.0])
def test_float32_keeps_five_digits_of_the_value_and_four_of_the_gradient(sharpness: float) -> None:
    """From uniform attributes to one-hot ones: the ridge keeps the condition below 1 + B/ridge."""
    generator = torch.Generator().manual_seed(0)
    logits_BM = torch.randn(128, 128, generator=generator, dtype=torch.float64)
    z_BM = torch.softmax(sharpness * logits_BM, 1)
    embeddings_CD = torch.randn(100, 128, generator=generator, dtype=torch.float64) * 0.14
    labels_B = torch.arange(128) // 4
    results = []
    for dtype in (torch.float64, torch.float32):
        inputs = (z_BM.to(dtype).requires_grad_(), embeddings_CD.to(dtype).requires_grad_())
        value = zero_shot_loss(inputs[0], labels_B, inputs[1])
        assert value.dtype == dtype
        results.append((value.double().detach(), *(g.double() for g in torch.autograd.grad(value, inputs))))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=0)
    for rough, exact in zip(results[1][1:], results[0][1:], strict=True):
        torch.testing.assert_close(rough, exact, rtol=1e-4, atol=1e-4 * float(exact.abs().max()))


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_types_are_raised(half: torch.dtype) -> None:
    z_BM, labels_B, embeddings_CD = problem([0, 0, 1, 1, 2, 2])
    value = zero_shot_loss(z_BM.to(half), labels_B, embeddings_CD.to(half))
    exact = zero_shot_loss(z_BM.to(half).double(), labels_B, embeddings_CD.to(half).double())
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.item(), rel=1e-4)


def test_a_split_that_shares_a_class_or_is_no_mask_is_refused() -> None:
    z_BM, labels_B, embeddings_CD = problem([0, 0, 1, 1])
    with pytest.raises(ValueError, match="class 1 is in both"):
        zero_shot_loss(z_BM, labels_B, embeddings_CD, split=torch.tensor([True, True, True, False]))
    for wrong in (torch.tensor([0, 0, 1, 1]), torch.tensor([True, False])):
        with pytest.raises(ValueError, match="bool mask of shape"):
            zero_shot_loss(z_BM, labels_B, embeddings_CD, split=wrong)


def test_the_module_learns_label_embeddings_of_the_size_of_the_embedding() -> None:
    z_BM, labels_B, _ = problem([0, 0, 1, 1])
    module = ZeroShot(num_classes=50, attributes=ATTRIBUTES, ridge=0.2, scale=3.0, dim=40).double()
    assert module.weight == 0.1
    assert module.class_embeddings.shape == (50, 40)
    assert ZeroShot(50, ATTRIBUTES).class_embeddings.shape == (50, ATTRIBUTES)
    assert module.class_embeddings.std().item() == pytest.approx(0.2, rel=0.1)
    value = module(z_BM, labels_B)
    assert torch.equal(value, zero_shot_loss(z_BM, labels_B, module.class_embeddings, 0.2, 3.0))
    torch.autograd.backward(value)
    assert module.class_embeddings.grad is not None
    assert (module.class_embeddings.grad.abs().sum(1) > 0).all()  # every class is a candidate of every logit
