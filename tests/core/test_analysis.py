"""The measures of seed 001 against loops, and what they must be for embeddings of a known shape."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmltune.core import analysis
from dmltune.core.analysis import (
    class_divergence,
    class_spectra,
    class_variances,
    distance_histograms,
    geometry,
    overlap_curve,
    rotation_shift,
    similarity,
    subspace_overlap,
)
from dmltune.core.geometry import covering_radius, l2_normalise

KEYS = {
    "inter_class_distance",
    "intra_class_distance",
    "subspace_overlap",
    "class_divergence",
    "divergence_spread",
    "eigenvalue_similarity",
    "variance_similarity",
    "rotation_shift",
    "covering_radius",
}


def problem(seed: int, size: int = 40, dim: int = 5) -> tuple[Tensor, Tensor]:
    """Classes of several sizes with labels that are neither sorted nor consecutive."""
    generator = torch.Generator().manual_seed(seed)
    labels_N = torch.tensor([30, 7, -2, 7])[torch.randint(4, (size,), generator=generator)]
    emb_ND = torch.randn(size, dim, generator=generator, dtype=torch.float64)
    return emb_ND + labels_N.unsqueeze(1) / 10, labels_N


def members(emb: Tensor, labels: Tensor) -> list[list[list[float]]]:
    rows, names = emb.tolist(), labels.tolist()
    return [
        [x for x, y in zip(rows, names, strict=True) if y == label] for label in sorted(set(labels.tolist()))
    ]


def mean(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def scatter(rows: list[list[float]]) -> np.ndarray:
    """1/N Σ (x − μ)ᵀ(x − μ) by loops."""
    centre = mean(rows)
    dim = len(centre)
    total = np.zeros((dim, dim))
    for x in rows:
        for i, j in itertools.product(range(dim), repeat=2):
            total[i, j] += (x[i] - centre[i]) * (x[j] - centre[j]) / len(rows)
    return total


@given(seed=st.integers(0, 10**6), k=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_the_overlap_is_that_of_the_explicit_matrices(seed: int, k: int) -> None:
    emb, labels = problem(seed)
    classes = members(emb, labels)
    s_c = sum(np.outer(mean(rows), mean(rows)) for rows in classes) / len(classes)
    s_w = sum(scatter(rows) for rows in classes) / len(classes)
    if k <= len(classes):  # further eigenvectors of S_c are not unique
        u = np.linalg.eigh(s_c)[1][:, ::-1][:, :k]
        expected = np.trace(u.T @ s_w @ u) / np.trace(s_w)
        assert subspace_overlap(emb, labels, k) == pytest.approx(expected, rel=1e-9)
        energy_D, overlap_D = overlap_curve(emb, labels)
        assert float(overlap_D[k - 1]) == subspace_overlap(emb, labels, k)
        assert float(energy_D[k - 1]) == pytest.approx(np.trace(u.T @ s_c @ u) / np.trace(s_c), rel=1e-9)
    assert subspace_overlap(emb, labels, 5) == pytest.approx(1)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(20)))
@settings(max_examples=20, deadline=None)
def test_order_rotation_and_scale_leave_the_overlap_and_scale_the_divergence(
    seed: int, order: list[int]
) -> None:
    emb, labels = problem(seed, size=20)
    turn, _ = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))
    other, other_labels = 3 * emb[order] @ turn, labels[order]
    assert subspace_overlap(other, other_labels, 2) == pytest.approx(
        subspace_overlap(emb, labels, 2), rel=1e-8
    )
    torch.testing.assert_close(class_divergence(other, other_labels), 9 * class_divergence(emb, labels))
    torch.testing.assert_close(class_spectra(other, other_labels), 9 * class_spectra(emb, labels))


def test_orthogonal_subspaces_overlap_by_nothing_and_equal_ones_by_everything() -> None:
    labels = torch.arange(30) % 3
    means = torch.eye(6, dtype=torch.float64)[:3][labels]
    noise = torch.zeros(30, 6, dtype=torch.float64)
    noise[:, 3:] = torch.randn(30, 3, dtype=torch.float64)
    for c in range(3):
        noise[labels == c] -= noise[labels == c].mean(0)
    assert subspace_overlap(means + noise, labels, 3) == pytest.approx(0, abs=1e-12)
    assert subspace_overlap(means + 0.1 * noise.flip(1), labels, 3) == pytest.approx(1)
    assert float(rotation_shift(means + noise, labels).max()) == pytest.approx(0, abs=1e-12)


def test_the_mean_matrix_is_not_centred() -> None:
    """All means lie along (1, 0): what varies along it overlaps, though the means differ by nothing there."""
    emb = torch.tensor([[9.0, 1.0], [11.0, 1.0], [9.0, -1.0], [11.0, -1.0]])
    assert subspace_overlap(emb, torch.tensor([0, 0, 1, 1]), 1) == pytest.approx(1)


@pytest.mark.parametrize("k", [0, 6])
def test_a_subspace_has_between_one_and_all_dimensions(k: int) -> None:
    with pytest.raises(ValueError, match=f"k must be between 1 and the 5 dimensions; got {k}"):
        subspace_overlap(*problem(0), k)


@pytest.mark.parametrize("dim", [2, 5, 60])
def test_divergence_variances_and_spectra_are_those_of_the_scatter_of_each_class(dim: int) -> None:
    emb, labels = problem(1, dim=dim)
    expected = [scatter(rows) for rows in members(emb, labels)]
    traces = [float(np.trace(one)) for one in expected]
    assert class_divergence(emb, labels).tolist() == pytest.approx(traces, rel=1e-12)
    np.testing.assert_allclose(class_variances(emb, labels), [np.diag(one) for one in expected], rtol=1e-11)
    spectra_CE = class_spectra(emb, labels)
    largest = max(len(rows) for rows in members(emb, labels))
    assert spectra_CE.shape == (3, min(dim, largest))
    for found, one in zip(spectra_CE, expected, strict=True):
        eigenvalues = np.linalg.eigvalsh(one)[::-1][: len(found)]
        np.testing.assert_allclose(found, eigenvalues, atol=1e-10)
    torch.testing.assert_close(spectra_CE.sum(1), class_divergence(emb, labels))


def test_many_classes_of_one_size_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    emb, labels = torch.randn(60, 4, dtype=torch.float64), torch.arange(60) % 20
    whole = class_spectra(emb, labels)
    found = geometry(emb, labels)
    monkeypatch.setattr(analysis, "_BLOCK", 30)
    torch.testing.assert_close(class_spectra(emb, labels), whole)
    assert geometry(emb, labels) == pytest.approx(found, rel=1e-12)


@given(seed=st.integers(0, 10**6), count=st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_similarity_is_that_of_all_pairs(seed: int, count: int) -> None:
    rows = torch.rand(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    apart = total = 0.0
    for a, b in itertools.combinations(rows.tolist(), 2):
        apart += sum(abs(x - y) for x, y in zip(a, b, strict=True))
        total += sum(x + y for x, y in zip(a, b, strict=True))
    assert similarity(rows) == pytest.approx(1 - apart / total, rel=1e-12)
    assert similarity(rows[:1].expand(count, 3)) == pytest.approx(1)


def test_rows_with_nothing_in_common_have_similarity_zero() -> None:
    assert similarity(torch.eye(2)) == 0
    assert similarity(torch.zeros(3, 2)) == similarity(torch.ones(1, 2)) == similarity(torch.ones(0, 2)) == 1


def test_turned_classes_have_equal_eigenvalues_but_not_equal_variances() -> None:
    """What figure 2 shows."""
    shape = torch.randn(50, 6, dtype=torch.float64) * torch.tensor([9.0, 3, 1, 0.3, 0.1, 0.1])
    turns = [torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0] for _ in range(4)]
    found = geometry(torch.cat([shape @ turn for turn in turns]), torch.arange(4).repeat_interleave(50))
    assert found["eigenvalue_similarity"] == pytest.approx(1)
    assert found["variance_similarity"] < 0.8
    assert found["divergence_spread"] == pytest.approx(0, abs=1e-10)


def test_the_shift_is_one_of_those_by_explicit_matrices_and_all_of_them_come() -> None:
    emb, labels = problem(3, size=12)
    classes = members(emb, labels)
    means = [np.array(mean(rows)) for rows in classes]
    expected = []
    for source, target in itertools.permutations(range(3), 2):
        n1 = means[source] / np.linalg.norm(means[source])
        t = means[target] / np.linalg.norm(means[target])
        rest = t - (t @ n1) * n1
        n2, alpha = rest / np.linalg.norm(rest), math.acos(t @ n1)
        matrix = np.eye(5) + (np.outer(n2, n1) - np.outer(n1, n2)) * math.sin(alpha)
        matrix += (np.outer(n1, n1) + np.outer(n2, n2)) * (math.cos(alpha) - 1)
        for x in classes[source]:
            sigma = np.array(x) - means[source]
            expected.append(float(np.linalg.norm(matrix @ sigma - sigma)))
    found = rotation_shift(emb, labels, draws=1000)
    assert sorted({round(d, 9) for d in found.tolist()}) == pytest.approx(
        sorted({round(d, 9) for d in expected}), rel=1e-7
    )
    assert torch.equal(found, rotation_shift(emb, labels, draws=1000))
    assert not torch.equal(found, rotation_shift(emb, labels, draws=1000, seed=1))
    assert rotation_shift(emb[:3], torch.zeros(3)).tolist() == []


@pytest.mark.parametrize("block", [1 << 22, 50])
@pytest.mark.parametrize("unit", [False, True])
def test_every_pair_is_counted_once_in_the_bin_of_its_distance(
    monkeypatch: pytest.MonkeyPatch, block: int, unit: bool
) -> None:
    monkeypatch.setattr(analysis, "_BLOCK", block)
    emb, labels = problem(4, size=37)
    emb = l2_normalise(emb) if unit else emb
    edges, positive, negative = distance_histograms(emb, labels, bins=9)
    limit = 2 * max(math.hypot(*x) for x in emb.tolist())
    assert limit == pytest.approx(2) or not unit
    np.testing.assert_allclose(edges, np.linspace(0, limit, 10))
    distances: dict[bool, list[float]] = {True: [], False: []}
    for (x, a), (y, b) in itertools.combinations(zip(emb.tolist(), labels.tolist(), strict=True), 2):
        distances[a == b].append(math.dist(x, y))
    assert positive.tolist() == np.histogram(distances[True], edges.numpy())[0].tolist()
    assert negative.tolist() == np.histogram(distances[False], edges.numpy())[0].tolist()


@pytest.mark.parametrize("scale", [0.0, 1e-39, 1e-30, 1.0, 1e30])
def test_distances_of_any_size_fall_into_a_bin(scale: float) -> None:
    emb, labels = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]) * scale, torch.tensor([0, 1, 0])
    _, positive, negative = distance_histograms(emb, labels, bins=4)
    assert positive.tolist() == [1, 0, 0, 0]
    assert negative.tolist() == (
        [2, 0, 0, 0] if scale == 0 else [0, 0, 0, 2]
    )  # opposite points: the last bin
    for few in (0, 1):
        _, positive, negative = distance_histograms(emb[:few], labels[:few], bins=4)
        assert int(positive.sum() + negative.sum()) == 0


def test_geometry_gives_the_figures_of_its_parts() -> None:
    emb, labels = problem(5)
    found = geometry(emb, labels)
    assert found.keys() == KEYS
    classes = members(emb, labels)
    means = [mean(rows) for rows in classes]
    inter = [math.dist(a, b) for a, b in itertools.combinations(means, 2)]
    intra = [sum(math.dist(x, m) for x in rows) / len(rows) for rows, m in zip(classes, means, strict=True)]
    traces = [float(np.trace(scatter(rows))) for rows in classes]
    energy_D, _ = overlap_curve(emb, labels)
    k = 1 + [float(energy) >= 0.99 for energy in energy_D].index(True)
    expected = {
        "inter_class_distance": sum(inter) / 3,
        "intra_class_distance": sum(intra) / 3,
        "subspace_overlap": subspace_overlap(emb, labels, k),
        "class_divergence": sum(traces) / 3,
        "divergence_spread": float(np.std(traces)),
        "eigenvalue_similarity": similarity(class_spectra(emb, labels)),
        "variance_similarity": similarity(class_variances(emb, labels)),
        "rotation_shift": float(rotation_shift(emb, labels).mean()),
        "covering_radius": covering_radius(emb, labels),
    }
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_class_of_one_point_does_not_count_in_the_similarities() -> None:
    emb, labels = problem(6)
    lone = torch.cat([emb, emb[:1] + 1]), torch.cat([labels, torch.tensor([99])])
    for key in ("eigenvalue_similarity", "variance_similarity"):
        assert geometry(*lone)[key] == pytest.approx(geometry(emb, labels)[key], rel=1e-12)


@pytest.mark.parametrize(
    "labels", [[], [4], [2, 2, 2], [0, 1, 2], [0, 0, 1]], ids=["none", "one", "a class", "lone", "uneven"]
)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_geometry_is_finite_whatever_the_points(labels: list[int], scale: float) -> None:
    emb = torch.randn(len(labels), 4) * scale
    found = geometry(emb, torch.tensor(labels, dtype=torch.long))
    assert found.keys() == KEYS
    assert all(math.isfinite(value) for value in found.values())
    if len(set(labels)) < 2:
        assert found["inter_class_distance"] == found["rotation_shift"] == 0


def test_half_types_are_raised_and_float64_is_kept() -> None:
    emb, labels = problem(7)
    for function in (class_divergence, class_variances, class_spectra, rotation_shift):
        assert function(emb, labels).dtype == torch.float64
        rough = function(emb.half(), labels)
        assert rough.dtype == torch.float32
        torch.testing.assert_close(rough.double(), function(emb, labels), rtol=0.05, atol=0.01)
    assert distance_histograms(emb.half(), labels)[1].sum() == distance_histograms(emb, labels)[1].sum()


def test_points_that_are_not_finite_are_refused() -> None:
    emb, labels = problem(8)
    emb[3, 1] = torch.nan
    for function in (geometry, distance_histograms, class_divergence, class_spectra, overlap_curve):
        with pytest.raises(ValueError, match="embeddings must be finite"):
            function(emb, labels)  # type: ignore[operator]
