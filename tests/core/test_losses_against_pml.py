"""Pair losses beside those of pytorch-metric-learning, where it has the same thing: values, and gradients to
batch and references. How far "the same" goes is said where it is not everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import losses
from dmltune.core.geometry import lip

pytest.importorskip("pytorch_metric_learning")

from pytorch_metric_learning import losses as pml
from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from pytorch_metric_learning.miners import MultiSimilarityMiner

DISTANCE = LpDistance(normalize_embeddings=False, power=1)
INNER_PRODUCT = DotProductSimilarity(normalize_embeddings=False)
SIZE, REFS, DIM = 30, 40, 4

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


def points(seed: int, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return lip(torch.randn(count, DIM, generator=generator, dtype=torch.float64) * 0.7)


def labels(seed: int, count: int, classes: int = 5) -> Tensor:
    return torch.randint(classes, (count,), generator=torch.Generator().manual_seed(seed))


def measured(loss: Loss, with_references: bool, seed: int) -> list[Tensor]:
    """Value and gradients of a random batch, alone or against random references."""
    x, y = points(seed, SIZE).requires_grad_(), points(seed + 100, REFS).requires_grad_()
    others = (y, labels(seed + 100, REFS)) if with_references else (None, None)
    value = loss(x, labels(seed, SIZE), *others)
    torch.autograd.backward(value)
    gradients = [point.grad for point in (x, y) if point.grad is not None]
    assert len(gradients) == 1 + with_references
    assert all(gradient.any() for gradient in gradients)
    return [value.detach(), *gradients]


def assert_same(ours: list[Tensor], theirs: list[Tensor], rtol: float = 1e-10) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=rtol, atol=rtol * float(other.abs().max()))


def theirs_of(loss: Any, miner: Any = None) -> Loss:
    def value(
        emb_BD: Tensor, labels_B: Tensor, refs_RD: Tensor | None, ref_labels_R: Tensor | None
    ) -> Tensor:
        pairs = miner(emb_BD, labels_B, refs_RD, ref_labels_R) if miner else None
        result: Tensor = loss(emb_BD, labels_B, pairs, refs_RD, ref_labels_R)
        return result

    return value


SAME = {
    "C2": (
        "contrastive",
        {"pos_margin": 0.2, "neg_margin": 0.9},
        theirs_of(pml.ContrastiveLoss(pos_margin=0.2, neg_margin=0.9, distance=DISTANCE)),
    ),
    "triplet": (
        "triplet",
        {"margin": 0.0961},
        theirs_of(pml.TripletMarginLoss(margin=0.0961, distance=DISTANCE)),
    ),
    "multi-similarity": (
        "multi_similarity",
        {"alpha": 2.0, "beta": 40.0, "base": 0.5},
        theirs_of(pml.MultiSimilarityLoss(alpha=2, beta=40, base=0.5, distance=INNER_PRODUCT)),
    ),
    "multi-similarity with mining": (
        "multi_similarity",
        {"alpha": 8.49, "beta": 57.38, "base": 0.41, "mining_margin": 0.1},
        theirs_of(
            pml.MultiSimilarityLoss(alpha=8.49, beta=57.38, base=0.41, distance=INNER_PRODUCT),
            MultiSimilarityMiner(epsilon=0.1, distance=INNER_PRODUCT),
        ),
    ),
}


@pytest.mark.parametrize("which", SAME)
@pytest.mark.parametrize("with_references", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradients_are_those_of_pytorch_metric_learning(
    which: str, with_references: bool, seed: int
) -> None:
    name, parameters, theirs = SAME[which]
    ours = losses.load(name, **parameters)
    assert_same(measured(ours, with_references, seed), measured(theirs, with_references, seed))


@pytest.mark.parametrize("seed", range(3))
def test_margin_is_theirs_where_anchors_have_as_many_positives_as_negatives(seed: int) -> None:
    """They list triplets: a positive pair counts once for every negative of its anchor."""
    theirs = pml.MarginLoss(margin=0.25, beta=1.125, learn_beta=True, distance=DISTANCE)
    ours = losses.load("margin", alpha=0.25, beta=1.125)
    results = []
    for loss in (ours, theirs_of(theirs)):
        x, y = points(seed, SIZE).requires_grad_(), points(seed + 100, REFS).requires_grad_()
        value = loss(x, labels(seed, SIZE, 2), y, torch.arange(REFS) % 2)
        torch.autograd.backward(value)
        assert x.grad is not None
        assert y.grad is not None
        results.append([value.detach(), x.grad, y.grad])
    assert_same(*results)
    assert ours.beta.grad is not None
    assert theirs.beta.grad is not None
    assert ours.beta.grad != 0
    torch.testing.assert_close(ours.beta.grad, theirs.beta.grad[0].double(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_lifted_is_theirs_within_a_batch(seed: int) -> None:
    """With references they take the row of sample number j for the negatives of reference number j."""
    theirs = theirs_of(pml.LiftedStructureLoss(neg_margin=0.8, distance=DISTANCE))
    ours = losses.load("lifted", margin=0.8)
    assert_same(measured(ours, False, seed), measured(theirs, False, seed))


@pytest.mark.parametrize("seed", range(3))
def test_n_pair_is_theirs_with_one_anchor_and_one_positive_per_class(seed: int) -> None:
    """They take a batch of such pairs: ours has the anchors for samples and the positives for references."""
    emb_BD, half = points(seed, SIZE), SIZE // 2
    labels_B = torch.arange(SIZE) % half
    x, y = emb_BD.clone().requires_grad_(), emb_BD.clone().requires_grad_()
    theirs = pml.NPairsLoss(distance=INNER_PRODUCT)(x, labels_B)
    ours = losses.load("n_pair")(y[:half], labels_B[:half], y[half:], labels_B[half:])
    torch.autograd.backward(theirs)
    torch.autograd.backward(ours)
    assert x.grad is not None
    assert y.grad is not None
    assert_same([ours.detach(), y.grad], [theirs.detach(), x.grad])


@pytest.mark.parametrize("seed", range(3))
def test_ranked_list_is_twice_theirs_up_to_the_small_number_in_their_divisors(seed: int) -> None:
    """They weight both parts with ½, and add 1e-5 to every weight of a row, pair or not."""
    theirs = pml.RankedListLoss(margin=0.4, Tn=5, imbalance=0.5, alpha=1.2, distance=DISTANCE)
    ours = losses.load("ranked_list", margin=0.4, boundary=1.2, temperature=5.0)
    doubled = [2 * part for part in measured(theirs_of(theirs), False, seed)]
    assert_same(measured(ours, False, seed), doubled, rtol=1e-3)
