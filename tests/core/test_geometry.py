"""Distances, normalisations, k-center and covering radius against loops, finite differences and brute
force.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmltune.core.geometry import (
    covering_radius,
    greedy_k_center,
    l2_normalise,
    lip,
    pair_masks,
    pairwise_distance,
)


def distances_by_loops(x: Tensor, y: Tensor) -> Tensor:
    return torch.tensor([[math.dist(a, b) for b in y.tolist()] for a in x.tolist()], dtype=torch.float64)


def k_center_by_loops(pool: list[list[float]], cover: list[list[float]], k: int) -> list[int]:
    picks: list[int] = []
    for _ in range(k):
        centres = cover + [pool[i] for i in picks]
        gaps = [-1.0 if i in picks else min(math.dist(p, c) for c in centres) for i, p in enumerate(pool)]
        picks.append(gaps.index(max(gaps)))
    return picks


@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0])
def test_distances_equal_those_of_loops(offset: float) -> None:
    x, y = torch.randn(7, 5, dtype=torch.float64) + offset, torch.randn(9, 5, dtype=torch.float64) + offset
    expected = distances_by_loops(x, y)
    torch.testing.assert_close(pairwise_distance(x, y), expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(pairwise_distance(x, y, squared=True), expected**2, rtol=1e-13, atol=0)
    torch.testing.assert_close(pairwise_distance(torch.stack([x, x]), torch.stack([y, y]))[1], expected)


@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-5])
def test_small_distances_keep_their_digits_in_float32(gap: float) -> None:
    x = l2_normalise(torch.randn(20, 64))
    y = x + gap * torch.randn(20, 64)
    x.requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    exact = torch.cdist(exact_x, y.double(), compute_mode="donot_use_mm_for_euclid_dist")
    ours = pairwise_distance(x, y)
    torch.testing.assert_close(ours.double(), exact, rtol=2e-5, atol=0)
    torch.autograd.backward(ours.sum())
    torch.autograd.backward(exact.sum())
    assert x.grad is not None
    assert exact_x.grad is not None
    torch.testing.assert_close(x.grad.double(), exact_x.grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_the_gradient_of_a_distance_is_that_of_finite_differences(
    squared: bool, shape: tuple[int, ...]
) -> None:
    x, y = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    y[..., 0, :] = x[..., 0, :] + 0.01  # so close that it is computed from the difference
    points = (x.requires_grad_(), y.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: pairwise_distance(a, b, squared), points)


@pytest.mark.parametrize("squared", [False, True])
def test_equal_points_have_distance_zero_and_gradient_zero(squared: bool) -> None:
    x = torch.randn(1, 6).expand(4, 6).clone().requires_grad_()
    distance = pairwise_distance(x, x, squared)
    torch.autograd.backward(distance.sum())
    assert torch.equal(distance, torch.zeros(4, 4))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.zeros(4, 6))


@given(scale=st.floats(-30, 30), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_distances_scale_with_the_points_from_tiny_to_huge(scale: float, seed: int) -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)).double()
    factor = 10.0**scale
    expected = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") * factor
    scaled = (x * factor).float()
    found = pairwise_distance(scaled, scaled).double()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_no_points_give_an_empty_matrix() -> None:
    assert pairwise_distance(torch.zeros(0, 3), torch.zeros(2, 3)).shape == (0, 2)
    assert pairwise_distance(torch.zeros(2, 3), torch.zeros(0, 3)).shape == (2, 0)


def test_half_types_are_raised_and_float64_is_kept() -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    assert pairwise_distance(x, x).dtype == lip(x).dtype == l2_normalise(x).dtype == torch.float64
    assert pairwise_distance(x.half(), x.half()).dtype == lip(x.bfloat16()).dtype == torch.float32


@given(seed=st.integers(0, 10**6), scale=st.floats(-25, 25))
@settings(max_examples=40, deadline=None)
def test_lip_shortens_only_what_is_longer_than_one(seed: int, scale: float) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)) * 10.0**scale
    y = lip(x.requires_grad_())
    norms = x.detach().double().norm(dim=1)
    torch.testing.assert_close(y.double().norm(dim=1), norms.clamp(max=1), rtol=1e-5, atol=0)
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    assert x.grad.isfinite().all()
    unit_norms = l2_normalise(x).double().norm(dim=1)
    torch.testing.assert_close(unit_norms, torch.ones_like(unit_norms), rtol=1e-5, atol=0)


def test_the_gradients_of_both_normalisations_are_those_of_finite_differences() -> None:
    lengths = torch.tensor([[0.2], [0.4], [1], [1], [3], [9]], dtype=torch.float64)
    x = (torch.randn(6, 4, dtype=torch.float64) * lengths).requires_grad_()
    assert torch.autograd.gradcheck(lip, (x,))
    assert torch.autograd.gradcheck(l2_normalise, (x,))


@pytest.mark.parametrize("normalise", [lip, l2_normalise])
def test_zero_stays_zero_with_a_finite_gradient(normalise: object) -> None:
    x = torch.zeros(2, 3).requires_grad_()
    y = normalise(x)  # type: ignore[operator]
    torch.autograd.backward(y.sum())
    assert torch.equal(y, torch.zeros(2, 3))
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_a_sample_is_no_pair_with_itself_but_with_an_equal_reference() -> None:
    labels = torch.tensor([0, 0, 1])
    positive, negative = pair_masks(labels)
    assert positive.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert negative.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    positive, negative = pair_masks(labels, labels)
    assert torch.equal(positive, ~negative)
    assert positive.diagonal().all()


@given(seed=st.integers(0, 10**6), size=st.integers(1, 9), cover=st.integers(0, 3), data=st.data())
@settings(max_examples=40, deadline=None)
def test_greedy_k_center_picks_what_loops_pick(seed: int, size: int, cover: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, size))
    generator = torch.Generator().manual_seed(seed)
    pool = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    covers = torch.randn(cover, 3, generator=generator, dtype=torch.float64) if cover else None
    expected = k_center_by_loops(pool.tolist(), [[0.0] * 3] if covers is None else covers.tolist(), k)
    assert greedy_k_center(pool, covers, k).tolist() == expected


def test_without_a_cover_the_longest_point_is_picked_first_and_ties_go_to_the_lower_index() -> None:
    pool = torch.tensor([[0.0, 1.0], [2.0, 0.0], [-2.0, 0.0]])
    assert greedy_k_center(pool, None, 3).tolist() == [1, 2, 0]


def test_classes_are_a_batch_and_invalid_points_are_never_picked() -> None:
    pool, cover = torch.randn(4, 6, 3, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    together = greedy_k_center(pool, cover, 4)
    assert together.tolist() == [greedy_k_center(pool[c], cover[c], 4).tolist() for c in range(4)]
    valid = torch.ones(4, 6, dtype=torch.bool)
    valid[1, [1, 3, 4, 5]] = False
    valid[2, :5] = False
    picks = greedy_k_center(pool, cover, 4, valid)
    first, second = picks[1, :2].tolist()
    assert picks[1].tolist() == [first, second, first, second]
    assert {first, second} == {0, 2}
    assert picks[2].tolist() == [5] * 4
    assert torch.equal(picks[0], together[0])


def test_more_centres_than_points_are_refused() -> None:
    with pytest.raises(ValueError, match="k must be between 0 and the 3 points of the pool; got 4"):
        greedy_k_center(torch.zeros(3, 2), None, 4)


def test_the_covering_radius_of_known_points() -> None:
    line = torch.tensor([[0.0], [1.0], [3.0], [10.0], [10.0]])
    # class 0: centre 1 covers within 2, then 3 leaves 1, then 0 leaves nothing; class 1: two equal points
    assert covering_radius(line, torch.tensor([0, 0, 0, 1, 1])) == pytest.approx((2 + 1 + 0) / 3 / 2)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_the_covering_radius_is_within_twice_the_optimum_and_exact_for_one_centre(
    seed: int, size: int
) -> None:
    points = torch.randn(size, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    distance = distances_by_loops(points, points)
    best = [
        min(
            distance[:, list(chosen)].amin(1).max().item()
            for chosen in itertools.combinations(range(size), k)
        )
        for k in range(1, size + 1)
    ]
    ours = covering_radius(points, torch.zeros(size, dtype=torch.long))
    assert sum(best) / size - 1e-12 <= ours <= (best[0] + 2 * sum(best[1:])) / size + 1e-12


@given(seed=st.integers(0, 10**6), order=st.permutations(range(12)))
@settings(max_examples=15, deadline=None)
def test_the_covering_radius_does_not_depend_on_the_order(seed: int, order: list[int]) -> None:
    points = torch.randn(12, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    labels = torch.arange(12) % 5 // 2
    assert covering_radius(points[order], labels[order]) == pytest.approx(
        covering_radius(points, labels), rel=1e-12
    )
