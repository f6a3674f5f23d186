"""Concatenations of the folds' models, against loops and against the variance of many repetitions."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import pytest
import torch

from dmltune.check import ensembles
from dmltune.check.ensembles import collections, ensemble, interval
from dmltune.data.images import ImageSet, Ints, Pixels


def image_set(labels: list[int], query: list[bool] | None = None) -> ImageSet:
    def read(indices: Ints, side: int | None) -> list[Pixels]:
        raise AssertionError("no image is read")

    query_N = None if query is None else np.array(query)
    names = tuple(map(str, range(max(labels) + 1)))
    return ImageSet("memory", "test", np.array(labels), names, "0", read, query_N=query_N)


def map_at_r_by_loops(emb: list[list[float]], labels: list[int]) -> float:
    scores = []
    for q in range(len(emb)):
        others = sorted(
            (g for g in range(len(emb)) if g != q),
            key=lambda g: (sum((a - b) ** 2 for a, b in zip(emb[q], emb[g], strict=True)), g),
        )
        matches = [labels[g] == labels[q] for g in others]
        r = sum(matches)
        if r:
            hits = [sum(matches[: i + 1]) / (i + 1) for i in range(r) if matches[i]]
            scores.append(sum(hits) / r)
    return statistics.fmean(scores)


def test_every_collection_takes_one_model_of_every_fold_and_puts_their_points_side_by_side() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3]
    emb_FR = [[torch.randn(10, 3, generator=generator) for _ in range(2)] for _ in range(3)]
    result = ensemble(emb_FR, image_set(labels), 0.95)["map_at_r"]
    scores = [
        map_at_r_by_loops(torch.cat(models, 1).double().tolist(), labels)
        for models in itertools.product(*emb_FR)
    ]
    assert (result.collections, result.dim) == (8, 9)
    assert result.mean == pytest.approx(statistics.fmean(scores), abs=1e-9)
    assert (result.low or 1) < result.mean < (result.high or 0)


def test_large_sets_are_measured_with_the_models_of_one_seed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensembles, "MOST_QUERIES", 4)
    monkeypatch.setattr(ensembles, "ALL", 8)  # two folds × three repeats have 9
    generator = torch.Generator().manual_seed(1)
    labels = [0, 0, 1, 1, 2, 2]
    emb_FR = [[torch.randn(6, 2, generator=generator) for _ in range(3)] for _ in range(2)]
    result = ensemble(emb_FR, image_set(labels), 0.95)["map_at_r"]
    scores = [
        map_at_r_by_loops(torch.cat([models[r] for models in emb_FR], 1).double().tolist(), labels)
        for r in range(3)
    ]
    assert result.collections == 3
    assert result.mean == pytest.approx(statistics.fmean(scores), abs=1e-9)
    half = 4.302652729749464 * statistics.stdev(scores) / 3**0.5  # t of 2 degrees of freedom at 97.5 %
    assert (result.high or 0) - (result.mean or 0) == pytest.approx(half)
    few = ensemble(emb_FR, image_set(labels, query=[True, False] * 3), 0.95)
    assert few["map_at_r"].collections == 9  # three queries


def test_one_model_a_fold_has_a_mean_and_no_interval_and_a_fold_without_any_has_nothing() -> None:
    emb_FR = [[torch.eye(4)], [torch.eye(4)]]
    result = ensemble(emb_FR, image_set([0, 0, 1, 1]), 0.95)["map_at_r"]
    assert (result.low, result.high, result.collections) == (None, None, 1)
    assert ensemble([[torch.eye(4)], []], image_set([0, 0, 1, 1]), 0.95) == {}
    assert result.sd is None


def test_the_81_collections_of_the_text_are_measured_whatever_the_size_of_the_data() -> None:
    assert collections([3, 3, 3, 3], 60_502) == list(itertools.product(range(3), repeat=4))
    assert collections([4, 3, 3, 3], 60_502) == [(repeat,) * 4 for repeat in range(3)]
    assert len(collections([4, 3, 3, 3], 5_924)) == 108


def test_the_spread_is_the_standard_deviation_of_the_collections() -> None:
    generator = torch.Generator().manual_seed(2)
    labels = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    emb_FR = [[torch.randn(9, 2, generator=generator) for _ in range(3)] for _ in range(2)]
    result = ensemble(emb_FR, image_set(labels), 0.95)["map_at_r"]
    scores = [
        map_at_r_by_loops(torch.cat(models, 1).double().tolist(), labels)
        for models in itertools.product(*emb_FR)
    ]
    mean = sum(scores) / 9
    assert result.sd == pytest.approx((sum((score - mean) ** 2 for score in scores) / 8) ** 0.5, rel=1e-6)


@pytest.mark.parametrize("interaction", [0.0, 0.5])
def test_the_interval_covers_the_truth_as_often_as_it_says(interaction: float) -> None:
    """A collection's score: the models' own parts, and a part of the combination."""
    rng = np.random.default_rng(3)
    folds, repeats, simulations = 4, 3, 600
    chosen = collections([repeats] * folds, 100)
    covered = 0
    for _ in range(simulations):
        parts = rng.normal(size=(folds, repeats))
        together = interaction * rng.normal(size=len(chosen))
        scores = [
            sum(parts[fold, r] for fold, r in enumerate(one)) / folds + together[place]
            for place, one in enumerate(chosen)
        ]
        low, high = interval(chosen, scores, 0.95)
        assert low is not None
        assert high is not None
        covered += low <= 0 <= high
    assert covered / simulations >= 0.93
