"""Losses with proxies of their own beside pytorch-metric-learning, and what is theirs alone.

pytorch-metric-learning normalises what it is given; ours are given normalised embeddings. Both are compared
as functions of the embeddings before that.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmltune.core import losses
from dmltune.core.geometry import l2_normalise
from dmltune.core.losses.arcface import shifted_cosine

CLASSES, DIM = 7, 6
NAMES = (
    "arcface",
    "cosface",
    "l2_softmax",
    "metric_cross_entropy",
    "proxy_anchor",
    "proxy_nca",
    "soft_triple",
)


def batch(seed: int = 0, size: int = 20) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(size, DIM, generator=generator, dtype=torch.float64)
    return points, torch.randint(CLASSES - 1, (size,), generator=generator)  # the last class is absent


def peer(class_name: str, **parameters: Any) -> nn.Module:
    room = pytest.importorskip("pytorch_metric_learning.losses")
    loss: nn.Module = getattr(room, class_name)(num_classes=CLASSES, embedding_size=DIM, **parameters)
    return loss.double()


def compare(name: str, parameters: dict[str, Any], theirs: nn.Module, weight: str, columns: bool) -> None:
    """Equal values and gradients with equal proxies; theirs stand in columns where `columns`."""
    ours = losses.load(name, num_classes=CLASSES, dim=DIM, **parameters).double()
    proxies = torch.randn(ours.proxies.shape, dtype=torch.float64)  # of any norm
    ours.proxies.data.copy_(proxies)
    flat = proxies.reshape(-1, DIM)
    getattr(theirs, weight).data.copy_(flat.T if columns else flat)
    points, labels_B = batch()
    x, y = points.clone().requires_grad_(), points.clone().requires_grad_()
    value, expected = ours(l2_normalise(x), labels_B), theirs(y, labels_B)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=0)
    torch.autograd.backward((value, expected))
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-8, atol=1e-12)
    grad = getattr(theirs, weight).grad
    grad = (grad.T if columns else grad).reshape(proxies.shape)
    torch.testing.assert_close(ours.proxies.grad, grad, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("delta", "alpha"), [(0.1, 32.0), (0.0, 4.0)])
def test_proxy_anchor_is_that_of_pytorch_metric_learning(delta: float, alpha: float) -> None:
    theirs = peer("ProxyAnchorLoss", margin=delta, alpha=alpha)
    compare("proxy_anchor", {"delta": delta, "alpha": alpha}, theirs, "proxies", columns=False)


@pytest.mark.parametrize("temperature", [0.1, 1.5])
def test_proxy_nca_is_that_of_pytorch_metric_learning_on_squared_distances(temperature: float) -> None:
    theirs = peer("ProxyNCALoss", softmax_scale=1 / temperature)
    compare("proxy_nca", {"temperature": temperature}, theirs, "proxies", columns=False)


@pytest.mark.parametrize(("gamma", "tau"), [(0.1, 0.2), (0.0521, 0.0)])
def test_soft_triple_is_that_of_pytorch_metric_learning_with_its_regulariser(
    gamma: float, tau: float
) -> None:
    regularizers = pytest.importorskip("pytorch_metric_learning.regularizers")
    theirs = peer(
        "SoftTripleLoss",
        la=20,
        gamma=gamma,
        margin=0.01,
        centers_per_class=4,
        weight_regularizer=regularizers.SparseCentersRegularizer(CLASSES, 4),
        weight_reg_weight=tau,
    )
    chosen = {"scale": 20.0, "gamma": gamma, "tau": tau, "delta": 0.01, "centers": 4}
    compare("soft_triple", chosen, theirs, "fc", columns=True)


@pytest.mark.parametrize("scale", [4.0, 32.0])
def test_l2_softmax_is_the_normalized_softmax_of_pytorch_metric_learning(scale: float) -> None:
    theirs = peer("NormalizedSoftmaxLoss", temperature=1 / scale)
    compare("l2_softmax", {"scale": scale}, theirs, "W", columns=True)


@pytest.mark.parametrize("margin", [0.0, 0.35])
def test_cosface_is_that_of_pytorch_metric_learning(margin: float) -> None:
    theirs = peer("CosFaceLoss", margin=margin, scale=16)
    compare("cosface", {"scale": 16.0, "margin": margin}, theirs, "W", columns=True)


@pytest.mark.parametrize("margin", [0.0, 0.5, 1.4])
def test_arcface_is_that_of_pytorch_metric_learning_beyond_pi_minus_margin_too(margin: float) -> None:
    theirs = peer("ArcFaceLoss", margin=math.degrees(margin), scale=16)  # 2.9 takes degrees
    compare("arcface", {"scale": 16.0, "margin": margin}, theirs, "W", columns=True)


@pytest.mark.parametrize("margin", [0.0, 0.3, 0.5, math.pi / 2])
def test_arcface_s_logit_falls_with_the_angle_from_0_to_pi(margin: float) -> None:
    angle = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    logit = shifted_cosine(angle.cos(), margin)
    assert (logit.diff() < 0).all()
    before = angle < math.pi - margin - 1e-9
    torch.testing.assert_close(logit[before], (angle[before] + margin).cos(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arcface_has_its_limits_and_finite_gradients_at_cosine_1_and_minus_1(dtype: torch.dtype) -> None:
    near = torch.finfo(dtype).eps
    cosine = torch.tensor([1.0, -1.0, 1 - near, -1 + near, 1 + near], dtype=dtype, requires_grad=True)
    logit = shifted_cosine(cosine, 0.5)
    torch.autograd.backward(logit.sum())
    assert logit[0].item() == pytest.approx(math.cos(0.5), rel=1e-6)
    assert logit[1].item() == pytest.approx(-1 - 0.5 * math.sin(0.5), rel=1e-6)
    assert cosine.grad is not None
    assert cosine.grad.isfinite().all()
    assert (cosine.grad > 0).all()
    assert (cosine.grad < 2e4).all()
    loss = losses.load("arcface", num_classes=3, dim=2).to(dtype)
    loss.proxies.data.copy_(torch.tensor([[1.0, 0], [-1, 0], [0, 1]]))
    emb_BD = torch.tensor([[1.0, 0], [1, 0], [-1, 0]], dtype=dtype, requires_grad=True)
    torch.autograd.backward(loss(emb_BD, torch.tensor([0, 1, 0])))
    assert emb_BD.grad is not None
    assert emb_BD.grad.isfinite().all()
    assert loss.proxies.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_only_the_direction_of_proxies_counts_and_they_start_as_unit_vectors(name: str) -> None:
    points, labels_B = batch()
    loss = losses.load(name, num_classes=CLASSES, dim=DIM).double()
    torch.testing.assert_close(loss.proxies.norm(dim=-1), torch.ones(loss.proxies.shape[:-1]).double())
    expected = loss(l2_normalise(points), labels_B)
    loss.proxies.data *= torch.rand(*loss.proxies.shape[:-1], 1, dtype=torch.float64) * 100 + 0.01
    torch.testing.assert_close(loss(l2_normalise(points), labels_B), expected)


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_are_not_normalised_again(name: str) -> None:
    points, labels_B = batch()
    loss = losses.load(name, num_classes=CLASSES, dim=DIM).double()
    unit = l2_normalise(points)
    assert loss(0.5 * unit, labels_B).item() != pytest.approx(loss(unit, labels_B).item(), rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_has_a_finite_loss(name: str) -> None:
    loss = losses.load(name, num_classes=CLASSES, dim=DIM)
    assert loss(torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)).isfinite()


@pytest.mark.parametrize("name", NAMES)
def test_descent_on_its_proxies_alone_gives_every_sample_its_own_proxy(name: str) -> None:
    torch.manual_seed(1)
    labels_B = torch.arange(3).repeat_interleave(4)
    emb_BD = l2_normalise(torch.eye(3, DIM)[labels_B] + 0.1 * torch.randn(12, DIM))
    loss = losses.load(name, num_classes=3, dim=DIM)
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        torch.autograd.backward(loss(emb_BD, labels_B))
        optimizer.step()
    similarity = emb_BD @ l2_normalise(loss.proxies.detach()).flatten(0, -2).mT
    per_class = loss.proxies[0].numel() // DIM
    assert (similarity.argmax(1) // per_class).tolist() == labels_B.tolist()


def test_soft_triple_with_coinciding_centres_has_a_finite_gradient() -> None:
    points, labels_B = batch()
    loss = losses.load("soft_triple", num_classes=CLASSES, dim=DIM, centers=3).double()
    loss.proxies.data[:] = loss.proxies.data[:, :1]
    value = loss(l2_normalise(points), labels_B)
    torch.autograd.backward(value)
    assert loss.proxies.grad.isfinite().all()
    alone = losses.load("soft_triple", num_classes=CLASSES, dim=DIM, centers=1, tau=5.0).double()
    alone.proxies.data.copy_(loss.proxies.data[:, :1])
    torch.testing.assert_close(value, alone(l2_normalise(points), labels_B))
