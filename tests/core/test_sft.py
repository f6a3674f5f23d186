"""Spherical Feature Transform: the rotation against its explicit matrix, the centres against loops, what is
drawn.
"""

from __future__ import annotations

import math

import pytest
import torch
from core.sft_points import CLASSES, DIM, matrix_of_equation_4, pair_at, points
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.core.geometry import l2_normalise
from dmltune.core.transforms.sft import Centres, rotate, translate


@given(seed=st.integers(0, 10**6), sizes=st.tuples(st.floats(-3, 3), st.floats(-3, 3)))
@settings(max_examples=40, deadline=None)
def test_the_rotation_is_the_matrix_of_equation_4_whatever_the_length_of_the_centres(
    seed: int, sizes: tuple[float, float]
) -> None:
    source_D, target_D = points(seed, DIM) * 10 ** sizes[0], points(seed + 1, DIM) * 10 ** sizes[1]
    A = matrix_of_equation_4(source_D, target_D)
    every = torch.eye(DIM, dtype=torch.float64)
    columns = rotate(every, source_D.expand(DIM, DIM), target_D.expand(DIM, DIM))
    torch.testing.assert_close(columns.T, A, rtol=0, atol=1e-9)
    torch.testing.assert_close(A @ A.T, every, rtol=0, atol=1e-12)
    assert float(torch.linalg.det(columns)) == pytest.approx(1)


def test_each_feature_has_a_pair_of_centres_of_its_own() -> None:
    x_BD, source_BD, target_BD = points(1, 7, DIM), points(2, 7, DIM), points(3, 7, DIM)
    turned_BD = rotate(x_BD, source_BD, target_BD)
    for x, source, target, turned in zip(x_BD, source_BD, target_BD, turned_BD, strict=True):
        torch.testing.assert_close(turned, matrix_of_equation_4(source, target) @ x)


@given(seed=st.integers(0, 10**6), angle=st.floats(1e-12, math.pi - 1e-6))
@settings(max_examples=60, deadline=None)
def test_it_takes_source_to_target_keeps_lengths_and_the_complement_and_its_inverse_swaps_the_centres(
    seed: int, angle: float
) -> None:
    source_D, target_D, beside_D = pair_at(angle, seed)
    pair = (source_D.view(1, -1), target_D.view(1, -1))
    exact = 1e-14 / max(1e-6, math.pi - angle)  # near to opposite the axis is what is left of cancellation
    torch.testing.assert_close(rotate(pair[0], *pair), pair[1], rtol=0, atol=10 * exact)
    torch.testing.assert_close(rotate(beside_D.view(1, -1), *pair), beside_D.view(1, -1), rtol=0, atol=exact)
    x_1D = points(seed + 1, 1, DIM)
    turned_1D = rotate(x_1D, *pair)
    assert float(turned_1D.norm()) == pytest.approx(float(x_1D.norm()), rel=1e-13)
    torch.testing.assert_close(rotate(turned_1D, pair[1], pair[0]), x_1D, rtol=0, atol=10 * exact)


@given(seed=st.integers(0, 10**6), exponent=st.floats(-7, 0), opposite=st.booleans())
@settings(max_examples=60, deadline=None)
def test_in_float32_lengths_are_kept_at_any_angle(seed: int, exponent: float, opposite: bool) -> None:
    angle = 10.0**exponent
    source_D, target_D, _ = pair_at(math.pi - angle if opposite else angle, seed, dim=64)
    x_BD = points(seed, 9, 64).float()
    turned_BD = rotate(x_BD, source_D.float().expand(9, 64), target_D.float().expand(9, 64))
    torch.testing.assert_close(turned_BD.norm(dim=1), x_BD.norm(dim=1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factor", [1.0, 4.0, 0.0, -1.0, -3.0])
def test_centres_without_a_second_axis_leave_the_feature_as_it_is(dtype: torch.dtype, factor: float) -> None:
    centre_BD, x_BD = points(1, 5, DIM).to(dtype), points(2, 5, DIM).to(dtype).requires_grad_()
    for source_BD, target_BD in ((centre_BD, factor * centre_BD), (factor * centre_BD, centre_BD)):
        turned_BD = rotate(x_BD, source_BD, target_BD)
        assert torch.equal(turned_BD, x_BD)
        (gradient_BD,) = torch.autograd.grad(turned_BD.sum(), x_BD)
        assert torch.equal(gradient_BD, torch.ones_like(x_BD))


def test_no_matrix_of_d_squared_is_built() -> None:
    size = 200_000  # its square has 4·10¹⁰ entries
    x_BD, source_BD, target_BD = torch.randn(2, size), torch.randn(2, size), torch.randn(2, size)
    turned_BD = rotate(source_BD, source_BD, target_BD)
    expected_BD = l2_normalise(target_BD) * source_BD.norm(dim=1, keepdim=True)
    torch.testing.assert_close(turned_BD, expected_BD, rtol=0, atol=1e-3)
    assert rotate(x_BD, source_BD, target_BD).shape == (2, size)


def test_the_gradient_of_the_rotation_is_that_of_finite_differences() -> None:
    triple = tuple(points(seed, 4, DIM).requires_grad_() for seed in range(3))
    assert torch.autograd.gradcheck(rotate, triple)
    assert torch.autograd.gradcheck(translate, triple)


@given(seed=st.integers(0, 10**6), length=st.floats(0.01, 3))
@settings(max_examples=30, deadline=None)
def test_rotation_is_translation_where_mean_and_variation_are_orthogonal(seed: int, length: float) -> None:
    """Proposition 3, and that it needs its condition."""
    source_D, target_D, beside_D = pair_at(1.1, seed)
    pair = (source_D.view(1, -1), target_D.view(1, -1))
    x_1D = source_D + length * beside_D.view(1, -1)
    torch.testing.assert_close(rotate(x_1D, *pair), translate(x_1D, *pair, renormalise=False))
    torch.testing.assert_close(rotate(l2_normalise(x_1D), *pair), translate(x_1D, *pair))
    slanted_1D = x_1D + 0.5 * length * target_D
    gap = (rotate(slanted_1D, *pair) - translate(slanted_1D, *pair, renormalise=False)).norm()
    assert float(gap) > 0.1 * length


def test_translation_is_equation_2_and_back_on_the_sphere() -> None:
    x_BD, source_BD, target_BD = points(1, 4, DIM), points(2, 4, DIM), points(3, 4, DIM)
    moved = [
        [x + t - s for x, s, t in zip(*rows, strict=True)]
        for rows in zip(x_BD.tolist(), source_BD.tolist(), target_BD.tolist(), strict=True)
    ]
    expected_BD = torch.tensor(moved, dtype=torch.float64)
    torch.testing.assert_close(translate(x_BD, source_BD, target_BD, renormalise=False), expected_BD)
    unit_BD = torch.tensor([[a / math.hypot(*row) for a in row] for row in moved], dtype=torch.float64)
    torch.testing.assert_close(translate(x_BD, source_BD, target_BD), unit_BD)


@given(seed=st.integers(0, 10**6), steps=st.integers(1, 5), order=st.permutations(range(8)))
@settings(max_examples=25, deadline=None)
def test_centres_after_any_batches_are_those_of_equation_9(seed: int, steps: int, order: list[int]) -> None:
    centres, expected = Centres(CLASSES, 3).double(), [[0.0] * 3 for _ in range(CLASSES)]
    for step in range(steps):
        x_BD = points(seed + step, 8, 3)
        labels = torch.randint(CLASSES, (8,), generator=torch.Generator().manual_seed(seed + step)).tolist()
        for j in range(CLASSES):
            members = [x for x, label in zip(x_BD.tolist(), labels, strict=True) if label == j]
            for d in range(3):
                expected[j][d] = (expected[j][d] + sum(x[d] for x in members)) / (1 + len(members))
        centres.update_(x_BD[order], torch.tensor(labels)[order])  # the order within a batch does not matter
        assert centres.known().tolist() == [any(row) for row in expected]
    torch.testing.assert_close(centres.values, torch.tensor(expected, dtype=torch.float64))


def test_the_order_of_the_batches_matters_to_a_centre_and_the_first_one_is_not_special() -> None:
    one, two = torch.tensor([[4.0]]), torch.tensor([[8.0], [8.0]])
    found = []
    for batches in ((one, two), (two, one)):
        centres = Centres(2, 1)
        for x_BD in batches:
            centres.update_(x_BD, torch.zeros(len(x_BD), dtype=torch.long))
        found.append(centres.values.flatten().tolist())
    assert found == [
        pytest.approx([((0 + 4) / 2 + 16) / 3, 0]),
        pytest.approx([((0 + 16) / 3 + 4) / 2, 0]),
    ]


def test_classes_that_are_not_in_the_batch_keep_their_centre_bit_for_bit() -> None:
    centres = Centres(CLASSES, DIM)
    centres.values.normal_()
    before = centres.values.clone()
    centres.update_(torch.randn(4, DIM), torch.tensor([2, 2, 5, 2]))
    assert [torch.equal(*pair) for pair in zip(centres.values, before, strict=True)] == [
        c not in (2, 5) for c in range(CLASSES)
    ]


def test_a_class_has_a_centre_when_any_entry_is_not_zero() -> None:
    centres = Centres(4, 2)
    centres.values.copy_(torch.tensor([[0.0, 0.0], [0.0, 1e-30], [-1.0, 0.0], [1.0, -1.0]]))
    assert centres.known().tolist() == [False, True, True, True]
