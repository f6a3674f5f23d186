"""The objective is (1 − w)·(J + v·J_gen) + w·L_ZS + λ/2·‖θ − θ*‖²: every term by loops over plain numbers."""

from __future__ import annotations

import copy
import math
from types import ModuleType
from typing import Any

import pytest
import torch
from core.oracles.contrastive import oracle as contrastive
from core.test_zero_shot import by_loops as zero_shot_by_loops
from torch import Tensor

from dmltune.core.objective import Objective

PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pooling": ("gsp", {"prototypes": 4}),
    "transform": ("sft", {"weight": 0.7}),
    "zero_shot": ("", {}),
}
C2 = {"pos_margin": 0.0, "neg_margin": 0.5}
W, V, LAMBDA, BATCH_WEIGHT = 0.35, 0.7, 0.4, 0.1


@pytest.fixture
def goal(toy: ModuleType) -> Objective:
    """Every part acts: centres are known, proxies spread out, θ* lies elsewhere."""
    made: Objective = toy.objective(
        "ccp", dtype=torch.float64, parts=PARTS, **{"lambda": LAMBDA, "batch_weight": BATCH_WEIGHT}
    )
    assert made.zero_shot is not None
    made.zero_shot.weight = W
    references: Any = made.references
    with torch.no_grad():
        references.proxies.copy_(torch.randn_like(references.proxies))
        references.anchor_W = made.weights_W() + torch.randn(len(made.weights_W()), dtype=torch.float64)
    for step in range(3):
        made.train()(*toy.ToyFeed().batch(step))
    return made


def in_ball(x: list[float]) -> list[float]:
    length = math.hypot(*x)
    return [value / max(1.0, length) for value in x]


def against(x: Tensor, labels: Tensor, refs: list[list[float]], ref_labels: list[int], same: bool) -> float:
    points = [in_ball(row) for row in x.tolist()]
    return contrastive(points, labels.tolist(), refs, ref_labels, same, **C2)


def terms(goal: Objective, images: Tensor, labels: Tensor) -> dict[str, float]:
    """J, J_gen, L_ZS and λ/2·‖θ − θ*‖², none of them weighted."""
    goal = copy.deepcopy(goal)
    assert goal.zero_shot is not None
    assert goal.transform is not None
    references: Any = goal.references
    raw, attributes = goal.embedder.pooled(images, attributes=True)
    assert attributes is not None
    proxies = [in_ball(row) for row in references.proxies.flatten(0, 1).tolist()]
    own = [in_ball(row) for row in raw.tolist()]
    j = against(raw, labels, proxies, references.proxy_labels.tolist(), False)
    j += BATCH_WEIGHT * against(raw, labels, own, labels.tolist(), True)
    unit = raw / raw.norm(dim=1, keepdim=True)
    generated, generated_labels = goal.transform.generate(raw, unit, labels)
    assert len(generated) > 0
    points, point_labels = generated.tolist(), generated_labels.tolist()
    ranks = sorted(set(labels.tolist()))
    first = [ranks.index(label) % 2 == 0 for label in labels.tolist()]
    embeddings = goal.zero_shot.class_embeddings.tolist()
    gaps = zip(goal.weights_W().tolist(), references.anchor_W.tolist(), strict=True)
    return {
        "J": j,
        "J_gen": contrastive(points, point_labels, points, point_labels, True, **C2),
        "L_ZS": zero_shot_by_loops(attributes.tolist(), labels.tolist(), embeddings, first, 0.05, 9.5),
        "proximal": LAMBDA / 2 * sum((theta - star) ** 2 for theta, star in gaps),
    }


def test_the_value_is_the_weighted_sum_of_all_four_terms(goal: Objective, toy: ModuleType) -> None:
    images, labels = toy.ToyFeed().batch(3)
    part = terms(goal, images, labels)
    assert all(value > 1e-3 for value in part.values())
    expected = (1 - W) * (part["J"] + V * part["J_gen"]) + W * part["L_ZS"] + part["proximal"]
    assert goal(images, labels).item() == pytest.approx(expected, rel=1e-9)


def test_the_proximal_term_pulls_every_weight_towards_theta_star(goal: Objective, toy: ModuleType) -> None:
    images, labels = toy.ToyFeed().batch(3)
    references: Any = goal.references
    gradients = []
    for proximal_weight in (LAMBDA, 0.0):
        other = copy.deepcopy(goal)
        other.references.proximal_weight = proximal_weight  # type: ignore[assignment]
        weights = [weight for weight in other.embedder.parameters() if weight.requires_grad]
        found = torch.autograd.grad(other(images, labels), weights, allow_unused=True)
        zero = [w.new_zeros(w.shape) if g is None else g for g, w in zip(found, weights, strict=True)]
        gradients.append(torch.cat([gradient.flatten() for gradient in zero]))
    pull = (gradients[0] - gradients[1]).tolist()
    gaps = zip(goal.weights_W().tolist(), references.anchor_W.tolist(), strict=True)
    assert pull == pytest.approx([LAMBDA * (theta - star) for theta, star in gaps], abs=1e-9)


def test_there_is_no_proximal_term_in_the_first_projection(goal: Objective, toy: ModuleType) -> None:
    images, labels = toy.ToyFeed().batch(3)
    part = terms(goal, images, labels)
    references: Any = goal.references
    value = copy.deepcopy(goal)(images, labels).item()
    references.anchor_W = references.anchor_W.new_zeros(0)
    assert goal(images, labels).item() == pytest.approx(value - part["proximal"], rel=1e-9)
