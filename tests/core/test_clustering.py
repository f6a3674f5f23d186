"""NMI and F1 against loops over points and pairs, and k-means on clusters that nobody can miss."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.core import clustering
from dmltune.core.clustering import cluster, clustering_metrics


def by_loops(labels: list[int], assignments: list[int]) -> dict[str, float]:
    size = len(labels)

    def entropy(values: list[int]) -> float:
        return -sum(values.count(v) / size * math.log(values.count(v) / size) for v in set(values))

    information = 0.0
    cells = list(zip(labels, assignments, strict=True))
    for a, b in set(cells):
        joint = cells.count((a, b)) / size
        information += joint * math.log(joint * size * size / labels.count(a) / assignments.count(b))
    both = same_class = same_cluster = 0
    for i in range(size):
        for j in range(i):
            both += labels[i] == labels[j] and assignments[i] == assignments[j]
            same_class += labels[i] == labels[j]
            same_cluster += assignments[i] == assignments[j]
    apart = entropy(labels) + entropy(assignments)
    pairs = same_class + same_cluster
    return {"nmi": 2 * information / apart if apart else 1.0, "f1": 2 * both / pairs if pairs else 1.0}


partitions = st.integers(1, 25).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-3, 4), min_size=n, max_size=n)] * 2)
)


@given(partitions)
@settings(max_examples=200, deadline=None)
def test_they_equal_the_loops(both: tuple[list[int], list[int]]) -> None:
    found = clustering_metrics(*both)
    assert set(found) == {"nmi", "f1"}
    assert found == pytest.approx(by_loops(*both), abs=1e-12)
    assert 0 <= found["nmi"] <= 1


@given(partitions, st.integers(-50, 50))
@settings(max_examples=60, deadline=None)
def test_names_of_clusters_and_which_side_is_which_do_not_matter(
    both: tuple[list[int], list[int]], shift: int
) -> None:
    labels, assignments = both
    renamed = [7 * (shift - value) for value in assignments]
    expected = pytest.approx(clustering_metrics(labels, assignments), abs=1e-12)
    assert clustering_metrics(labels, renamed) == expected
    assert clustering_metrics(assignments, labels) == expected


def test_nmi_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import normalized_mutual_info_score

    rng = np.random.default_rng(0)
    labels, assignments = rng.integers(0, 40, 3000), rng.integers(0, 60, 3000)
    assignments[:1500] = labels[:1500]
    expected = normalized_mutual_info_score(labels, assignments)
    assert clustering_metrics(labels, assignments)["nmi"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("labels", [[3, 3, 3], [1, 2, 3], [1, 1, 2, 2], [5]])
def test_the_same_partition_scores_one(labels: list[int]) -> None:
    assert clustering_metrics(labels, [-value for value in labels]) == pytest.approx({"nmi": 1.0, "f1": 1.0})


def test_one_cluster_for_all_classes_knows_nothing() -> None:
    found = clustering_metrics(torch.arange(4) // 2, torch.zeros(4, dtype=torch.long))
    assert found == pytest.approx({"nmi": 0.0, "f1": 2 * 2 / (2 + 6)})


def test_a_million_points_take_no_pairwise_work_and_their_pairs_are_counted_exactly() -> None:
    size = 1_000_000
    labels = torch.arange(size) // (size // 2)
    begin = time.perf_counter()
    found = clustering_metrics(labels, torch.zeros_like(labels))
    assert time.perf_counter() - begin < 10
    own, all_pairs = 2 * math.comb(size // 2, 2), math.comb(size, 2)
    assert found["f1"] == pytest.approx(2 * own / (own + all_pairs), rel=1e-15)


@pytest.mark.parametrize("wrong", [([], []), ([1, 2], [1])])
def test_points_without_a_cluster_are_refused(wrong: tuple[list[int], list[int]]) -> None:
    with pytest.raises(ValueError, match="every point needs a label and a cluster"):
        clustering_metrics(*wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_k_means_finds_well_separated_clusters_and_repeats_itself(dtype: torch.dtype) -> None:
    labels = torch.arange(90) % 3
    emb = (torch.eye(3)[labels] * 20 + torch.randn(90, 3)).to(dtype).requires_grad_()
    found = cluster(emb, 3, seed=1)
    assert found.dtype == torch.long
    assert clustering_metrics(labels, found) == pytest.approx({"nmi": 1.0, "f1": 1.0})
    assert torch.equal(found, cluster(emb, 3, seed=1))


def test_a_collapsed_embedding_is_clustered_without_a_warning() -> None:
    found = cluster(torch.ones(12, 4), 5, seed=0)
    assert clustering_metrics(torch.arange(12) % 5, found)["nmi"] == pytest.approx(0)


@pytest.mark.parametrize("by_faiss", [True, False])
def test_many_clusters_are_found_with_and_without_faiss(
    monkeypatch: pytest.MonkeyPatch, by_faiss: bool
) -> None:
    if by_faiss:
        pytest.importorskip("faiss")
    else:
        monkeypatch.setattr(clustering, "_faiss", lambda: None)
    labels = torch.arange(1200) % 60
    emb = torch.randn(60, 16)[labels] + 0.3 * torch.randn(1200, 16)
    monkeypatch.setattr(clustering, "_MANY", 3)
    before = torch.get_rng_state()
    many = [cluster(emb, 60, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(many[0], many[1])
    for found in many:
        assert found.dtype == torch.long
        assert clustering_metrics(labels, found)["nmi"] > 0.9
    assert cluster(torch.ones(12, 4), 5, seed=0).amax() < 5
    assert (
        cluster(torch.randn(40, 3, dtype=torch.float64).T.contiguous().T, 40, seed=0).unique().numel() == 40
    )


@pytest.mark.parametrize("k", [0, 4])
def test_more_clusters_than_points_or_none_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k must be between 1 and the 3 points; got {k}"):
        cluster(torch.eye(3), k, seed=0)


def test_points_that_are_not_finite_are_not_clustered() -> None:
    with pytest.raises(ValueError, match="finite"):
        cluster(torch.tensor([[0.0], [torch.nan]]), 1, seed=0)
