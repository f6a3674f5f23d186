"""What single poolings promise beyond the contract of all (test_every_pooling.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import poolings
from dmltune.core.geometry import l2_normalise
from dmltune.core.poolings.netvlad import Netvlad
from dmltune.core.poolings.otp import Otp, _transport
from dmltune.errors import UserError


def maps(channels: int = 8, size: tuple[int, int] = (4, 3), count: int = 3) -> Tensor:
    return torch.randn(count, channels, *size, dtype=torch.float64)


def pool(name: str, features_BDHW: Tensor, **parameters: Any) -> Tensor:
    return poolings.load(name, channels=features_BDHW.shape[1], **parameters).double()(features_BDHW)


def test_weldon_spans_maximum_minimum_and_mean() -> None:
    features_BDHW = maps()
    everything = {"k_max": 12, "k_min": 0}
    torch.testing.assert_close(pool("weldon", features_BDHW, **everything), features_BDHW.mean((2, 3)))
    torch.testing.assert_close(
        pool("weldon", features_BDHW, k_max=1, k_min=1),
        features_BDHW.amax((2, 3)) + features_BDHW.amin((2, 3)),
    )
    torch.testing.assert_close(
        pool("weldon", features_BDHW, k_max=0.25, k_min=0.5), pool("weldon", features_BDHW, k_max=3, k_min=6)
    )


def test_weldon_refuses_a_number_of_positions_that_is_not_whole() -> None:
    with pytest.raises(
        UserError, match=r"k_min must be a share below 1 or a whole number.*got 2\.5\. Use 2 or 3"
    ):
        poolings.load("weldon", k_min=2.5)


@pytest.mark.parametrize("name", ["cbam", "smk"])
def test_a_window_has_a_middle(name: str) -> None:
    with pytest.raises(UserError, match=r"kernel_size must be odd.*got 4\. Use 3 or 5"):
        poolings.load(name, channels=8, kernel_size=4)


def test_the_generalised_mean_goes_from_average_to_maximum() -> None:
    features_BDHW = maps().abs() + 0.1
    torch.testing.assert_close(pool("gemean", features_BDHW, power=1.0), features_BDHW.mean((2, 3)))
    torch.testing.assert_close(
        pool("gemean", features_BDHW, power=2000.0), features_BDHW.amax((2, 3)), rtol=2e-3, atol=0
    )


@pytest.mark.parametrize("power", [0.0, -3.0])
def test_a_power_that_was_learned_away_still_gives_a_finite_mean(power: float) -> None:
    pooling = poolings.load("gemean")
    with torch.no_grad():
        pooling.get_parameter("power").fill_(power)
    pooled_BD = pooling(maps().float())
    torch.autograd.backward(pooled_BD.sum())
    assert pooled_BD.isfinite().all()


def test_generalised_max_is_equally_similar_to_every_feature_and_the_sum_for_a_large_ridge() -> None:
    features_BDHW = maps(channels=24)
    local_BND = features_BDHW.flatten(2).mT
    pooled_BD = pool("gemax", features_BDHW, ridge=1e-4)
    similarity_BN = (local_BND @ pooled_BD.unsqueeze(-1)).squeeze(-1)
    square_B1 = local_BND.square().sum(-1).mean(1, keepdim=True)
    torch.testing.assert_close(similarity_BN, square_B1.expand_as(similarity_BN), rtol=2e-3, atol=0)
    total_BD = l2_normalise(features_BDHW.sum((2, 3)))
    torch.testing.assert_close(
        l2_normalise(pool("gemax", features_BDHW, ridge=1e6)), total_BD, rtol=0, atol=1e-4
    )


def test_generalised_max_gives_a_feature_that_is_repeated_no_more_weight() -> None:
    local_1ND = torch.eye(4, dtype=torch.float64)[[0, 0, 0, 0, 0, 1]].unsqueeze(0)
    pooled_D = pool("gemax", local_1ND.mT.unsqueeze(-1), ridge=1e-4)[0]
    torch.testing.assert_close(pooled_D[0], pooled_D[1], rtol=1e-3, atol=0)


def test_crow_looks_at_the_strongest_position_and_favours_the_rare_channel() -> None:
    features_BDHW = torch.full((1, 2, 2, 2), 0.1, dtype=torch.float64)
    features_BDHW[0, 1] = -1.0
    features_BDHW[0, 1, 0, 0] = 4.0
    pooled_D = pool("crow", features_BDHW)[0]
    share = torch.tensor([4.1, 0.1, 0.1, 0.1], dtype=torch.float64)
    spatial = (share / share.norm()).sqrt()
    # 4 of 4 positions respond in the first channel, 1 of 4 in the second
    rarity = torch.tensor([5 / 4, 5 / 1], dtype=torch.float64).log()
    values = torch.stack((spatial.sum() * 0.1, spatial[0] * 4 - spatial[1:].sum())) / 4
    torch.testing.assert_close(pooled_D, rarity * values)


def test_the_transport_fills_every_prototype_alike_and_at_convergence_empties_every_position() -> None:
    score_BNK = torch.randn(3, 6, 4, dtype=torch.float64) * 3
    few, many = _transport(score_BNK, 1), _transport(score_BNK, 300)
    for plan_BNK in (few, many):
        torch.testing.assert_close(plan_BNK.sum(1), torch.full((3, 4), 1 / 4, dtype=torch.float64))
    torch.testing.assert_close(many.sum(2), torch.full((3, 6), 1 / 6, dtype=torch.float64))
    assert (few.sum(2) - 1 / 6).abs().max() > 1e-3


def test_the_transport_does_not_underflow() -> None:
    plan_BNK = _transport(torch.randn(2, 5, 3) * 1e4, 10)
    torch.testing.assert_close(plan_BNK.sum(1), torch.full((2, 3), 1 / 3))


def test_with_a_very_smooth_transport_every_part_is_the_average() -> None:
    features_BDHW = maps(channels=4)
    pooling = Otp(channels=8, clusters=2, epsilon=1e6).double()
    average_BD = features_BDHW.mean((2, 3)) / 2**0.5
    torch.testing.assert_close(pooling(features_BDHW), average_BD.repeat(1, 2), rtol=1e-4, atol=1e-6)


def test_netvlad_starts_at_the_means_of_separate_groups_and_assigns_by_distance() -> None:
    groups_KD = l2_normalise(torch.randn(4, 6, dtype=torch.float64))
    points_PD = (groups_KD.repeat(20, 1) + torch.randn(80, 6, dtype=torch.float64) * 0.02) * 7
    pooling = Netvlad(channels=24, clusters=4, sharpness=5.0).double()
    pooling.start(points_PD)
    means_KD = l2_normalise(points_PD).unflatten(0, (20, 4)).mean(0)
    nearest_K = torch.cdist(means_KD, pooling.prototypes.detach()).argmin(1)
    assert sorted(nearest_K.tolist()) == [0, 1, 2, 3]
    torch.testing.assert_close(pooling.prototypes.detach()[nearest_K], means_KD)
    local_ND = l2_normalise(torch.randn(9, 6, dtype=torch.float64))
    expected_NK = (-5.0 * torch.cdist(local_ND, pooling.prototypes).square()).softmax(1)
    torch.testing.assert_close(pooling.assignment(local_ND).softmax(1), expected_NK)


def test_the_match_kernels_descriptor_is_the_mean_for_equal_norms_and_follows_the_strong_feature() -> None:
    features_BDHW = maps()
    equal_BDHW = l2_normalise(features_BDHW.movedim(1, -1)).movedim(-1, 1)
    torch.testing.assert_close(pool("smk", equal_BDHW, kernel_size=1), equal_BDHW.mean((2, 3)))
    features_BDHW[:, :, 1, 1] *= 1e9
    torch.testing.assert_close(
        pool("smk", features_BDHW, kernel_size=1), features_BDHW[:, :, 1, 1], rtol=1e-6, atol=1e3
    )
