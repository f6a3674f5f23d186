"""No result depends on torch's global default type: what float32 gives, float64 as the default gives too."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import (
    analysis,
    backbones,
    clustering,
    components,
    convex,
    geometry,
    losses,
    poolings,
    references,
    retrieval,
    transforms,
    verification,
)
from dmltune.core.embedder import Embedder
from dmltune.core.fit import fit
from dmltune.core.losses import metric_cross_entropy
from dmltune.core.poolings import gsp
from dmltune.core.run import Options, Schedule
from dmltune.core.transforms import sft
from dmltune.core.zero_shot import ZeroShot, zero_shot_loss

CLASSES, DIM = 4, 8
PML = ("pml/CircleLoss", "pml/ProxyAnchorLoss", "pml/SoftTripleLoss")


@pytest.fixture(autouse=True)
def _default_stays_float32() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


def points(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


X, Y, LABELS = points(0, 24, DIM), points(1, 16, DIM), torch.arange(24) % CLASSES
UNIT = geometry.l2_normalise(X)
MAP = points(2, 5, DIM, 4, 4)
SHARES = points(3, 6, CLASSES).softmax(1)


def with_gradient(module: torch.nn.Module, x: Tensor, *others: Any) -> list[Any]:
    """Whatever the module gives, its gradients, and its state afterwards."""
    x = x.clone().requires_grad_()
    value = module(x, *others)
    torch.autograd.backward(value.sum())
    return [value, x.grad, *(weight.grad for weight in module.parameters()), module.state_dict()]


def transformed(name: str, **parameters: Any) -> list[Any]:
    transform = transforms.load(name, CLASSES, DIM, torch.tensor([3, 30, 5, 20]), **parameters)
    made = []
    for _ in range(12):
        made.append(transform.generate(X, UNIT, LABELS))
        transform.update_(X, UNIT, LABELS)
    return [made, transform.state_dict()]


def referred(name: str, **parameters: Any) -> list[Any]:
    kind = references.load(name, CLASSES, DIM, **parameters)
    kind.start(lambda per_class: (points(4, CLASSES, per_class, DIM), torch.ones(CLASSES, per_class) > 0))
    return [kind(losses.load("contrastive"), UNIT, LABELS) for _ in range(3)] + [kind.state_dict()]


def pooled(name: str) -> list[Any]:
    pooling = poolings.load(name, channels=DIM)
    if pooling.start_points:
        pooling.start(points(5, pooling.start_points, pooling.in_channels or DIM))
    return with_gradient(pooling, MAP[:, : pooling.in_channels or DIM])


def embedded() -> list[Any]:
    net = backbones.load("resnet20")
    backbones.require_size(net, "resnet20", 32)
    embedder = Embedder(net, poolings.load("gap"), DIM, frozen_until="blocks.6", side=32)
    return with_gradient(embedder, points(6, 2, 3, 32, 32).sigmoid())


SURFACE: dict[str, Callable[[], Any]] = {
    "distances": lambda: [geometry.pairwise_distance(X, Y, squared) for squared in (False, True)],
    "normalise": lambda: [geometry.lip(X), geometry.l2_normalise(X.half())],
    "k-center": lambda: [geometry.greedy_k_center(X, cover, 5) for cover in (None, Y)],
    "covering radius": lambda: geometry.covering_radius(X, LABELS),
    "transport": lambda: gsp.transport(X.abs().view(2, 3, 32), 0.3, 5.0),
    "sum pool": lambda: gsp.generalized_sum_pool(X.view(3, 8, DIM), Y, 0.3, 5.0),
    "zero-shot": lambda: [
        zero_shot_loss(UNIT.square(), LABELS, Y[:CLASSES]),
        with_gradient(ZeroShot(CLASSES, DIM), UNIT.square(), LABELS),
    ],
    "rotate": lambda: [sft.rotate(UNIT[:16], Y, X[:16]), sft.translate(UNIT[:16], Y, X[:16])],
    "centres": lambda: (lambda centres: [centres.update_(X, LABELS), centres.values])(
        sft.Centres(CLASSES, DIM)
    ),
    "retrieval": lambda: [
        retrieval.retrieval_metrics(UNIT, LABELS),
        retrieval.retrieval_metrics(X, LABELS, Y, LABELS[:16]),
        retrieval.retrieval_metrics(points(7, 900, 4), torch.arange(900) % 90),
    ],
    "clustering": lambda: [clustering.clustering_metrics(LABELS, clustering.cluster(X, CLASSES, 0))],
    "verification": lambda: [
        verification.tar_at_far(X[:, 0], X[:, 1] > 0, (0.1, 0.5)),
        verification.accuracy(X[:, 0], X[:, 1] > 0),
    ],
    "analysis": lambda: [
        analysis.subspace_overlap(X, LABELS, 2),
        analysis.class_divergence(X, LABELS),
        analysis.geometry(X, LABELS),
        analysis.distance_histograms(X, LABELS),
        analysis.histogram(X, Y),
        analysis.convex_combination(X, Y),
        convex.convex_hull_overlap(X, LABELS),
    ],
    "confusions": lambda: [
        retrieval.per_class(X[:, 0], LABELS),
        retrieval.confusions(LABELS, LABELS.flip(0), 3),
    ],
    "metric": lambda: metric_cross_entropy.distance(SHARES, SHARES.flip(0), 1.0, 1.0, 0.75),
    "embedder": embedded,
    **{f"pooling {name}": lambda name=name: pooled(name) for name in components.names("poolings")},
    **{
        f"loss {name}": lambda name=name: with_gradient(losses.load(name, CLASSES, DIM), UNIT, LABELS)
        for name in (*components.names("losses"), *PML)
    },
    **{f"references {name}": lambda name=name: referred(name) for name in components.names("references")},
    "identity": lambda: transformed("identity"),
    **{
        f"sft {form} {centres}": lambda form=form, centres=centres: transformed(
            "sft", form=form, centres=centres
        )
        for form in ("rotate", "degenerate", "ftl")
        for centres in ("running", "random", "pick")
    },
}


def computed(part: Callable[[], Any], default: torch.dtype) -> Any:
    torch.set_default_dtype(default)
    torch.manual_seed(3)
    return part()


@pytest.mark.parametrize("name", SURFACE)
def test_the_surface_gives_the_same_under_either_default(name: str) -> None:
    exact, other = (computed(SURFACE[name], default) for default in (torch.float32, torch.float64))
    torch.testing.assert_close(other, exact, rtol=0, atol=0, equal_nan=True)  # values, types and keys


@pytest.mark.parametrize("kind", ["batch", "xbm", "ccp"])
def test_a_training_gives_the_same_under_either_default(toy: ModuleType, kind: str) -> None:
    small = {"ccp": {"patience": 1, "proxies": 2, "pool_size": 3}}.get(kind, {})
    parts = {"pooling": ("gsp", {"prototypes": 4}), "transform": ("sft", {}), "zero_shot": ("", {})}
    run = toy.run(kind, Schedule(6, 2), parts=parts, options=Options(clip_norm=1.0, ema=0.5), **small)
    states = []
    for default in (torch.float32, torch.float64):
        again = copy.deepcopy(run)
        torch.set_default_dtype(default)
        torch.manual_seed(3)
        scores = [progress.score for progress in fit(again)]
        states.append((scores, again.state()[0]))
    torch.testing.assert_close(states[1], states[0], rtol=0, atol=0, equal_nan=True)
