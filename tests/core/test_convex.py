"""Chapter 4: the histogram operator against its linear program, proposition 4.2.1, hulls by brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dmltune.core.convex import convex_combination, convex_hull_overlap, histogram, hulls_overlap
from dmltune.core.geometry import greedy_k_center, lip, pairwise_distance


def points(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def combination_bound(features_ND: Tensor, prototypes_MD: Tensor) -> tuple[Tensor, Tensor]:
    """‖PCC − GAP‖ ≤ δ (proposition 4.2.1), both (...), δ the largest distance to the nearest prototype.

    Printed is ‖PCC − GAP‖² ≤ δ, whose proof takes ‖PCC − GAP‖ ≤ 1 for granted: features x = −ν on the unit
    sphere have 4 > 2. Without the square it is the triangle inequality and needs no unit ball.
    """
    error = (convex_combination(features_ND, prototypes_MD) - features_ND.mean(-2)).norm(dim=-1)
    distance_XM = pairwise_distance(features_ND.flatten(0, -2), prototypes_MD)
    return error, distance_XM.amin(-1).view(features_ND.shape[:-1]).amax(-1)


def principal_plane(emb_ND: Tensor) -> Tensor:
    """Return the points in the plane of their two leading principal axes, (N, 2)."""
    centred_ND = emb_ND - emb_ND.mean(0)
    return centred_ND @ torch.linalg.eigh(centred_ND.mT @ centred_ND).eigenvectors[:, -2:].flip(1)


def nearest_by_loops(features: Tensor, prototypes: Tensor) -> list[int]:
    gaps = [[math.dist(x, v) for v in prototypes.tolist()] for x in features.tolist()]
    return [row.index(min(row)) for row in gaps]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), m=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_the_histogram_counts_the_features_nearest_to_each_prototype(seed: int, n: int, m: int) -> None:
    features_ND, prototypes_MD = points(seed, n, 3), points(seed + 1, m, 3)
    nearest = nearest_by_loops(features_ND, prototypes_MD)
    expected = [nearest.count(i) / n for i in range(m)]
    assert histogram(features_ND, prototypes_MD).tolist() == pytest.approx(expected, abs=1e-15)
    combined = [
        sum(p * v[d] for p, v in zip(expected, prototypes_MD.tolist(), strict=True)) for d in range(3)
    ]
    assert convex_combination(features_ND, prototypes_MD).tolist() == pytest.approx(combined, abs=1e-13)


@pytest.mark.parametrize("seed", range(3))
def test_the_histogram_solves_the_program_of_equation_4_2_5(seed: int) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    features_ND, prototypes_MD = points(seed, 6, 3), points(seed + 50, 4, 3)
    cost_MN = np.array([[math.dist(v, x) for x in features_ND.tolist()] for v in prototypes_MD.tolist()])
    columns = np.zeros((6, 24))
    for i, j in itertools.product(range(4), range(6)):
        columns[j, 6 * i + j] = 1
    solved = optimize.linprog(cost_MN.flatten(), A_eq=columns, b_eq=np.full(6, 1 / 6), bounds=(0, None))
    p_M = solved.x.reshape(4, 6).sum(1)
    np.testing.assert_allclose(histogram(features_ND, prototypes_MD), p_M, atol=1e-9)


def test_ties_go_to_the_lower_index_and_half_types_are_raised() -> None:
    features, prototypes = torch.tensor([[0.0], [0.0], [3.0]]), torch.tensor([[1.0], [-1.0], [1.0]])
    assert histogram(features, prototypes).tolist() == pytest.approx([1, 0, 0])
    assert histogram(features.half(), prototypes.half()).dtype == torch.float32
    assert convex_combination(features.double(), prototypes.double()).dtype == torch.float64


def test_each_image_of_a_batch_is_as_if_it_were_alone() -> None:
    features_BND, prototypes_MD = points(1, 5, 7, 3), points(2, 4, 3)
    for function in (histogram, convex_combination):
        alone = torch.stack([function(one, prototypes_MD) for one in features_BND])
        torch.testing.assert_close(function(features_BND, prototypes_MD), alone)
    together = combination_bound(features_BND, prototypes_MD)
    for one, error, radius in zip(features_BND, *together, strict=True):
        torch.testing.assert_close(combination_bound(one, prototypes_MD), (error, radius))


@pytest.mark.parametrize(("n", "m"), [(0, 2), (2, 0)])
def test_a_histogram_of_nothing_is_refused(n: int, m: int) -> None:
    with pytest.raises(ValueError, match=f"a feature and a prototype at least; got {n} and {m}"):
        histogram(torch.zeros(n, 3), torch.zeros(m, 3))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), m=st.integers(1, 8), spread=st.floats(0.01, 3))
@settings(max_examples=60, deadline=None)
def test_the_combination_is_no_farther_from_average_pooling_than_the_covering_radius(
    seed: int, n: int, m: int, spread: float
) -> None:
    features_ND, prototypes_MD = lip(spread * points(seed, n, 4)), lip(points(seed + 1, m, 4))
    error, radius = combination_bound(features_ND, prototypes_MD)
    nearest = nearest_by_loops(features_ND, prototypes_MD)
    gaps = [
        math.dist(x, prototypes_MD[i].tolist()) for x, i in zip(features_ND.tolist(), nearest, strict=True)
    ]
    combined = torch.stack([prototypes_MD[i] for i in nearest]).mean(0)
    assert float(radius) == pytest.approx(max(gaps), rel=1e-12)
    assert float(error) == pytest.approx(float((combined - features_ND.mean(0)).norm()), abs=1e-12)
    assert float(error) <= float(radius) + 1e-12


def test_the_bound_holds_for_feature_maps_of_a_network_and_prototypes_by_k_center() -> None:
    """As in §4.3: 48 prototypes among the local features."""
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 3)).requires_grad_(False)
    features_BND = network(torch.rand(16, 3, 12, 12)).flatten(2).mT
    pool_ND = features_BND.flatten(0, 1)
    errors, radii = [], []
    for count in (4, 48):
        prototypes_MD = pool_ND[greedy_k_center(pool_ND, None, count)]
        error_B, radius_B = combination_bound(features_BND, prototypes_MD)
        assert error_B.shape == radius_B.shape == (16,)
        assert (error_B <= radius_B + 1e-6).all()
        errors.append(float(error_B.mean()))
        radii.append(float(radius_B.max()))
    assert radii[1] < radii[0]
    assert 0 < errors[1] < radii[1]


def test_the_printed_bound_on_the_square_does_not_hold() -> None:
    feature = torch.tensor([[1.0, 0.0]])
    error, radius = combination_bound(feature, -feature)
    assert float(error) == float(radius) == 2
    assert float(error) ** 2 > float(radius)


def test_features_that_are_prototypes_have_no_error() -> None:
    prototypes_MD = points(3, 5, 3)
    error, radius = combination_bound(prototypes_MD[[0, 0, 3, 4]], prototypes_MD)
    assert float(error) == pytest.approx(0, abs=1e-15)
    assert float(radius) == 0


def in_a_triangle(p: list[float], corners: list[list[float]]) -> bool:
    """By Carathéodory's theorem p is in the hull if and only if three of the corners hold it."""

    def side(a: list[float], b: list[float]) -> float:
        return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

    return any(
        min(sides) > 0 or max(sides) < 0
        for a, b, c in itertools.combinations(corners, 3)
        for sides in [(side(a, b), side(b, c), side(c, a))]
    )


def share_by_triangles(emb: list[list[float]], labels: list[int]) -> float:
    inside = 0
    for p, label in zip(emb, labels, strict=True):
        others = set(labels) - {label}
        inside += any(
            in_a_triangle(p, [x for x, y in zip(emb, labels, strict=True) if y == other]) for other in others
        )
    return inside / len(emb)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 24), gap=st.floats(0, 2))
@settings(max_examples=30, deadline=None)
def test_in_the_plane_the_share_in_other_hulls_is_that_by_triangles(seed: int, size: int, gap: float) -> None:
    labels_N = torch.randint(3, (size,), generator=torch.Generator().manual_seed(seed))
    emb_N2 = points(seed, size, 2) + gap * labels_N.unsqueeze(1)
    expected = share_by_triangles(emb_N2.tolist(), labels_N.tolist())
    assert convex_hull_overlap(emb_N2, labels_N) == pytest.approx(expected)
    assert convex_hull_overlap(1e-20 * emb_N2 + 3e-20, labels_N) == pytest.approx(expected)
    lifted_N3 = torch.nn.functional.pad(emb_N2, (0, 1))  # the same by least squares
    turn_33, _ = torch.linalg.qr(points(seed, 3, 3))
    assert convex_hull_overlap(lifted_N3, labels_N) == pytest.approx(expected)
    assert convex_hull_overlap(lifted_N3 @ turn_33, labels_N) == pytest.approx(expected)


def test_hulls_apart_share_nothing_and_a_class_within_another_is_inside() -> None:
    ring = torch.tensor([[math.cos(a), math.sin(a)] for a in range(6)], dtype=torch.float64)
    labels = torch.arange(2).repeat_interleave(6)
    assert convex_hull_overlap(torch.cat([ring, ring + 5]), labels) == 0
    assert not hulls_overlap(torch.cat([ring, ring + 5]), labels)[0, 1]
    assert convex_hull_overlap(torch.cat([ring, 0.1 * ring]), labels) == 0.5
    assert hulls_overlap(torch.cat([ring, 0.1 * ring]), labels).all()


def test_hulls_can_cross_without_a_point_of_one_in_the_other() -> None:
    wide = torch.tensor([[-3.0, -1], [3, -1], [3, 1], [-3, 1]])
    both, labels = torch.cat([wide, wide.flip(1)]), torch.arange(2).repeat_interleave(4)
    assert convex_hull_overlap(both, labels) == 0
    assert hulls_overlap(both, labels).tolist() == [[True, True], [True, True]]


@pytest.mark.parametrize("dim", [2, 3])
def test_points_and_segments_are_hulls_too_and_shared_prototypes_overlap(dim: int) -> None:
    flat = [
        ([0.0, 0.0], 0),
        ([2.0, 2.0], 0),
        ([1.0, 1.0], 1),  # on the segment of class 0
        ([3.0, 3.0], 2),  # on its line, beyond its end
        ([3.0, 3.0], 3),  # equal to class 2
        ([0.0, 1.0], 4),
    ]
    emb = torch.nn.functional.pad(torch.tensor([x for x, _ in flat]), (0, dim - 2))
    labels = torch.tensor([y for _, y in flat])
    assert convex_hull_overlap(emb, labels) == pytest.approx(3 / 6)
    met = {(a, b) for a, b in hulls_overlap(emb, labels).nonzero().tolist() if a < b}
    assert met == {(0, 1), (2, 3)}


def test_in_many_dimensions_points_in_general_position_are_in_no_hull() -> None:
    emb, labels = points(5, 60, 20), torch.arange(60) % 4
    assert convex_hull_overlap(emb, labels) == 0
    assert convex_hull_overlap(principal_plane(emb), labels) > 0.3


def test_no_points_and_one_class_overlap_by_nothing_and_points_must_be_finite() -> None:
    assert convex_hull_overlap(torch.zeros(0, 2), torch.zeros(0)) == 0
    assert convex_hull_overlap(torch.zeros(4, 2), torch.zeros(4)) == 0
    with pytest.raises(ValueError, match="finite"):
        convex_hull_overlap(torch.full((2, 2), torch.inf), torch.arange(2))
