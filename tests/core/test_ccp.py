"""Chapter 3: the loss against proxies, the proximal term, the plateau and the change of projection."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import losses, references
from dmltune.core.geometry import greedy_k_center, lip
from dmltune.core.references.ccp import Ccp
from dmltune.errors import UserError

CLASSES, DIM, POOL = 3, 4, 5


class CountedPool:
    """Random points of every class, another draw each time; class 0 has two samples only."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Tensor, Tensor]] = []

    def __call__(self, per_class: int) -> tuple[Tensor, Tensor]:
        emb_CbD = lip(torch.randn(CLASSES, per_class, DIM, dtype=torch.float64))
        valid_Cb = torch.ones(CLASSES, per_class, dtype=torch.bool)
        valid_Cb[0, 2:] = False
        self.drawn.append((emb_CbD, valid_Cb))
        return self.drawn[-1]


def ccp(**parameters: Any) -> Ccp:
    chosen = {"proxies": 2, "pool_size": POOL, "patience": 2, **parameters}
    method = references.load("ccp", num_classes=CLASSES, dim=DIM, **chosen).double()
    assert isinstance(method, Ccp)
    return method


def test_the_yaml_name_lambda_and_the_argument_name_are_the_same_parameter() -> None:
    assert ccp(**{"lambda": 0.5}).proximal_weight == ccp(proximal_weight=0.5).proximal_weight == 0.5


def test_a_pool_smaller_than_the_proxies_is_refused() -> None:
    with pytest.raises(UserError, match="pool_size must be at least proxies; got 5 and 6"):
        ccp(proxies=6)


def test_the_loss_is_sample_against_proxies_plus_a_tenth_of_the_batch_loss() -> None:
    loss = losses.load("contrastive", neg_margin=0.8)
    method = ccp()
    with torch.no_grad():
        method.proxies.copy_(torch.randn(CLASSES, 2, DIM) * 2)
    emb_BD, labels_B = lip(torch.randn(6, DIM, dtype=torch.float64)), torch.tensor([0, 0, 1, 1, 2, 2])
    refs_RD = torch.stack(
        [proxy / max(1.0, float(proxy.norm())) for row in method.proxies.detach() for proxy in row]
    )
    against_proxies = loss(emb_BD, labels_B, refs_RD, torch.tensor([0, 0, 1, 1, 2, 2]))
    value = method(loss, emb_BD, labels_B)
    torch.testing.assert_close(value, against_proxies + 0.1 * loss(emb_BD, labels_B), rtol=1e-14, atol=0)
    text = ccp(batch_weight=0.0)
    text.load_state_dict(method.state_dict())
    torch.testing.assert_close(text(loss, emb_BD, labels_B), against_proxies, rtol=1e-14, atol=0)
    torch.autograd.backward(value)
    assert method.proxies.grad is not None
    assert method.proxies.grad.abs().sum() > 0


def test_it_starts_from_the_k_center_picks_of_each_class_with_a_zero_vector_as_cover() -> None:
    method, pool = ccp(), CountedPool()
    method.start(pool)
    emb_CbD, valid_Cb = pool.drawn[0]
    for c in range(CLASSES):
        members = emb_CbD[c][valid_Cb[c]]
        assert torch.equal(method.proxies[c], members[greedy_k_center(members, None, 2)])
        assert members.norm(dim=1).argmax() == greedy_k_center(members, None, 2)[0]


def test_projection_never_gives_a_proxy_to_another_class_and_repeats_when_a_class_is_small() -> None:
    method, pool = ccp(proxies=4, pool_size=POOL), CountedPool()
    method.start(pool)
    emb_CbD, valid_Cb = pool.drawn[0]
    for c in range(CLASSES):
        members = emb_CbD[c][valid_Cb[c]].tolist()
        assert all(proxy in members for proxy in method.proxies[c].tolist())


def k_center_by_loops(pool: list[list[float]], cover: list[list[float]], k: int) -> list[list[float]]:
    picks: list[list[float]] = []
    for _ in range(k):
        nearest = [min(math.dist(point, other) for other in [*cover, *picks]) for point in pool]
        picks.append(pool[nearest.index(max(nearest))])
    return picks


def test_a_new_projection_covers_from_the_best_proxies_and_not_from_the_live_ones() -> None:
    method, pool = ccp(proxies=1, pool_size=2, patience=1), CountedPool()
    axis, corner = torch.zeros(CLASSES, 1, DIM, dtype=torch.float64), torch.eye(DIM, dtype=torch.float64)
    axis[:, 0, 0] = 3.0  # outside the ball: after lip it is the first axis
    with torch.no_grad():
        method.proxies.copy_(axis)
    method.after_validation(0.5, torch.zeros(4), pool)
    with torch.no_grad():
        method.proxies.copy_(-axis)  # the live proxies are elsewhere by now
    samples = torch.stack([0.9 * corner[0], -0.9 * corner[0]]).expand(CLASSES, 2, DIM)
    method.after_validation(0.1, torch.zeros(4), lambda per_class: (samples, torch.ones(CLASSES, 2) > 0))
    for c in range(CLASSES):
        expected = k_center_by_loops(samples[c].tolist(), [corner[0].tolist()], 1)
        assert method.proxies[c].tolist() == expected == [(-0.9 * corner[0]).tolist()]


def test_a_projection_ends_after_patience_validations_without_a_better_score_than_its_own_best() -> None:
    method, pool = ccp(patience=3), CountedPool()
    method.start(pool)
    at_best = None
    scores = [0.1, 0.2, 0.2, 0.2 + 0.9e-5, 0.1]  # an improvement by no more than 1e-5 is none
    seen = []
    for i, score in enumerate(scores):
        with torch.no_grad():
            method.proxies.add_(0.01)
        if i == 1:
            at_best = method.proxies.detach().clone()
        seen.append(method.after_validation(score, torch.full((4,), float(i)), pool)["projection"])
    assert seen == [1, 1, 1, 1, 1]
    assert method.figures()["projection"] == 2
    assert method.anchor_W.tolist() == [1.0] * 4  # θ* are the best weights, not the last ones
    assert at_best is not None
    emb_CbD, valid_Cb = pool.drawn[1]
    picks_CK = greedy_k_center(emb_CbD, lip(at_best), 2, valid_Cb)  # the cover is the best proxies
    assert torch.equal(method.proxies, torch.take_along_dim(emb_CbD, picks_CK.unsqueeze(-1), 1))
    # A lower score than the best of the projection before is still the best of the new one.
    for score in (0.05, 0.04, 0.04):
        method.after_validation(score, torch.zeros(4), pool)
    assert method.figures()["projection"] == 2
    method.after_validation(0.04, torch.zeros(4), pool)
    assert method.figures()["projection"] == 3


def test_a_projection_has_at_most_its_longest_number_of_scores() -> None:
    method, pool = ccp(patience=2, longest=3), CountedPool()
    method.start(pool)
    weights = [torch.full((4,), float(i)) for i in range(9)]
    seen = []
    for score, weight in zip((0.1, 0.2, 0.3, 0.1, 0.1, 0.05, 0.2, 0.3, 0.1), weights, strict=True):
        method.after_validation(score, weight, pool)
        seen.append(int(method.projection))
    assert seen == [1, 1, 2, 2, 2, 3, 3, 3, 4]  # by length, by patience and length at once, by length
    assert method.anchor_W.tolist() == [7.0] * 4  # θ* is the best of the last one, not its end
    assert len(pool.drawn) == 4
    old = {name: value for name, value in method.state_dict().items() if name != "scores"}
    resumed = ccp(patience=2, longest=3)
    resumed.load_state_dict(old)  # of an older version
    assert int(resumed.scores) == 0


def test_a_score_that_is_no_number_counts_as_no_improvement() -> None:
    method, pool = ccp(patience=1), CountedPool()
    method.start(pool)
    method.after_validation(0.3, torch.zeros(4), pool)
    method.after_validation(float("nan"), torch.ones(4), pool)
    assert method.figures()["projection"] == 2


def test_steps_are_counted_while_training_only() -> None:
    method, loss = ccp(), losses.load("contrastive")
    emb, labels = torch.zeros(2, DIM, dtype=torch.float64), torch.tensor([0, 1])
    method(loss, emb, labels)
    method.eval()
    method(loss, emb, labels)
    assert method.figures()["steps_in_projection"] == 1


def test_the_state_dict_alone_resumes_it() -> None:
    method, pool = ccp(), CountedPool()
    method.start(pool)
    for score in (0.3, 0.2, 0.1, 0.4, 0.3):
        method.after_validation(score, torch.full((9,), score, dtype=torch.float64), pool)
    other = ccp()
    other.load_state_dict(method.state_dict())
    torch.manual_seed(5)
    method.after_validation(0.1, torch.zeros(9, dtype=torch.float64), pool)
    torch.manual_seed(5)
    other.after_validation(0.1, torch.zeros(9, dtype=torch.float64), pool)
    assert method.figures() == other.figures()
    assert method.figures()["projection"] == 3
    for (name, mine), theirs in zip(method.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name


def test_batch_references_have_no_state_and_no_penalty() -> None:
    method = references.load("batch", num_classes=CLASSES, dim=DIM)
    assert method.normalise == "l2"
    assert not method.state_dict()
    assert method.penalty(torch.ones(3)).item() == 0
    assert method.after_validation(0.1, torch.ones(3), CountedPool()) == {}
