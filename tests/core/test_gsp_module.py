"""The pooling `gsp`: maps, attributes, pictures of weights, and how its prototypes start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import poolings
from dmltune.core.geometry import greedy_k_center, lip
from dmltune.core.poolings.gsp import generalized_sum_pool

DIM, BATCH = 12, 2


def features(count: int) -> Tensor:
    """Longer and shorter than 1, (BATCH, count, DIM)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, count, DIM, generator=generator, dtype=torch.float64) * 0.4


def started(**parameters: Any) -> Any:
    pooling = poolings.load("gsp", channels=DIM, **parameters).double()
    pooling.start(features(40).flatten(0, 1))
    return pooling


def as_map(features_BND: Tensor) -> Tensor:
    return features_BND.mT.unflatten(2, (4, 3))


def test_the_module_pools_maps_and_gives_attributes_and_pictures() -> None:
    features_BND = features(12)
    pooling = started(prototypes=6, mu=0.4)
    expected = generalized_sum_pool(features_BND, pooling.prototypes, 0.4, 5.0)
    pooled_BD, attributes_BM = pooling.with_attributes(as_map(features_BND))
    assert torch.equal(pooled_BD, expected.pooled_BD)
    assert torch.equal(attributes_BM, expected.attributes_BM)
    assert torch.equal(pooling(as_map(features_BND)), pooled_BD)
    assert torch.equal(pooling.weights(as_map(features_BND)), expected.weights_BN.view(BATCH, 4, 3))
    assert pooling.attributes == 6


def test_under_max_the_reweighted_map_is_pooled_by_its_largest_value() -> None:
    features_BND = features(12)
    pooling = started(prototypes=6, mu=0.4, under="max")
    weights_BN = generalized_sum_pool(features_BND, pooling.prototypes, 0.4, 5.0).weights_BN
    expected = torch.stack(
        [(12 * w[:, None] * f).max(0).values for w, f in zip(weights_BN, features_BND, strict=True)]
    )
    torch.testing.assert_close(pooling(as_map(features_BND)), expected, rtol=1e-13, atol=0)


def test_under_sum_and_max_the_largest_of_the_map_as_it_is_is_added_to_the_sum() -> None:
    features_BND = features(12)
    alone, both = started(prototypes=6, mu=0.4), started(prototypes=6, mu=0.4, under="sum+max")
    added_BD = both(as_map(features_BND)) - alone(as_map(features_BND))
    torch.testing.assert_close(added_BD, features_BND.max(1).values, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("under", "plain"), [("sum", "gap"), ("max", "gmp"), ("sum+max", "gap_gmp")])
def test_until_it_is_started_it_is_plain_pooling_with_attributes(under: str, plain: str) -> None:
    features_BND = features(12)
    pooling: Any = poolings.load("gsp", channels=DIM, prototypes=6, under=under).double()
    pooled_BD, attributes_BM = pooling.with_attributes(as_map(features_BND))
    plain_BD = poolings.load(plain, channels=DIM)(as_map(features_BND))
    torch.testing.assert_close(pooled_BD, plain_BD, rtol=1e-14, atol=0)
    expected_BM = generalized_sum_pool(features_BND, pooling.prototypes, 1.0, 5.0).attributes_BM
    assert torch.equal(attributes_BM, expected_BM)
    torch.autograd.backward(pooling(as_map(features_BND)).sum())
    assert torch.equal(pooling.prototypes.grad, torch.zeros(6, DIM, dtype=torch.float64))


def test_prototypes_start_as_a_k_center_of_the_points_and_stay_started_after_a_round_trip() -> None:
    points_ND = features(40).flatten(0, 1) * 3
    pooling = poolings.load("gsp", channels=DIM, prototypes=6).double()
    assert pooling.start_points == 24
    pooling.start(points_ND)
    near_ND = lip(points_ND)
    assert torch.equal(pooling.get_parameter("prototypes"), near_ND[greedy_k_center(near_ND, None, 6)])
    other = poolings.load("gsp", channels=DIM, prototypes=6).double()
    other.load_state_dict(pooling.state_dict())
    map_BDHW = as_map(features(12))
    assert torch.equal(other(map_BDHW), pooling(map_BDHW))
    assert not torch.equal(other(map_BDHW), map_BDHW.mean((2, 3)))


def test_fewer_points_than_prototypes_start_all_of_them_apart_and_alike_on_every_rank() -> None:
    points_ND = features(3)[0]
    both = [poolings.load("gsp", channels=DIM, prototypes=8).double() for _ in range(2)]
    for pooling in both:
        torch.rand(1)
        pooling.start(points_ND)
    prototypes_MD = both[0].get_parameter("prototypes")
    assert torch.equal(prototypes_MD, both[1].get_parameter("prototypes"))
    distance_MM = torch.cdist(prototypes_MD, prototypes_MD) + torch.eye(8)
    assert distance_MM.min() > 1e-3
    assert torch.cdist(prototypes_MD, lip(points_ND)).min(1).values.max() < 0.05
    with pytest.raises(ValueError, match="at least one point"):
        both[0].start(points_ND[:0])
