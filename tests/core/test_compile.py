"""The compiled step: one graph for every loss and pooling, the numbers of the step that is not compiled."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from support.loss_cases import CLASSES, DIM, NAMES, batch, make, takes_references
from torch import Tensor

from dmltune.core import components, poolings
from dmltune.core.embedder import Embedder
from dmltune.core.fit import Options, Schedule, fit
from dmltune.core.zero_shot import ZeroShot

SMALL: dict[str, dict[str, Any]] = {
    "gsp": {"prototypes": 4},
    "netvlad": {"clusters": 2},
    "otp": {"clusters": 2},
}


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    torch._dynamo.reset()


def compiled(part: Any) -> Any:
    """Compile as a whole or not at all; without making code, which costs seconds a part."""
    return torch.compile(part, fullgraph=True, backend="aot_eager")


def with_gradients(function: Any, *learning: Tensor) -> list[Tensor]:
    value = function()
    gradients = torch.autograd.grad(value.square().sum(), learning, allow_unused=True)
    return [value.detach(), *(part for part in gradients if part is not None)]


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_is_one_graph(name: str) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(1)
    emb_BD.requires_grad_()
    refs_RD.requires_grad_()
    loss = make(name, {})
    graph = compiled(loss)
    learning = list(loss.parameters())
    for refs in ((), (refs_RD, ref_labels_R)) if takes_references(name) else ((),):
        points = [emb_BD, *refs[:1], *learning]
        expected = with_gradients(lambda: loss(emb_BD, labels_B, *refs), *points)  # noqa: B023
        found = with_gradients(lambda: graph(emb_BD, labels_B, *refs), *points)  # noqa: B023
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", components.names("poolings"))
def test_the_embedder_with_every_pooling_is_one_graph(toy: ModuleType, name: str) -> None:
    pooling = poolings.load(name, 8, **SMALL.get(name, {}))
    pooling.start(torch.randn(max(1, pooling.start_points), pooling.in_channels or 8))
    embedder = Embedder(toy.ToyBackbone(), pooling, 8).double().eval()
    images, _ = toy.ToyFeed().batch(0)
    attributes = bool(pooling.attributes)
    graph = compiled(embedder.pooled)
    weights = [weight for weight in embedder.parameters() if weight.requires_grad]
    expected = with_gradients(lambda: embedder.pooled(images, attributes)[0], *weights)
    found = with_gradients(lambda: graph(images, attributes)[0], *weights)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_the_zero_shot_loss_is_one_graph() -> None:
    part = ZeroShot(CLASSES, DIM).double()
    attributes = torch.rand(9, DIM, dtype=torch.float64).softmax(1).requires_grad_()
    labels_B = batch(1)[1]
    expected = with_gradients(lambda: part(attributes, labels_B), attributes, part.class_embeddings)
    graph = compiled(part)
    found = with_gradients(lambda: graph(attributes, labels_B), attributes, part.class_embeddings)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def require_alike(run: Any, plain: Any) -> None:
    expected, found = list(fit(plain)), list(fit(run))
    assert [each.step for each in found] == [each.step for each in expected]
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.metrics["loss"] == pytest.approx(other.metrics["loss"], rel=1e-4)
        assert one.metrics["covering_radius"] == pytest.approx(other.metrics["covering_radius"], rel=1e-3)
    assert set(run.state()[0]) == set(plain.state()[0]), "a compiled part keeps the names of its weights"


def test_a_compiled_training_gives_the_numbers_of_one_that_is_not(toy: ModuleType) -> None:
    """With a memory that grows, so that the loss gets more references in every step."""
    settings: dict[str, Any] = {"kind": "xbm", "size": 20, "start_step": 1, "schedule": Schedule(4, 2)}
    run = toy.run(**settings)
    run.objective.compile_parts(backend="aot_eager")
    require_alike(run, toy.run(**settings))


def test_so_does_the_code_that_the_compiler_makes(toy: ModuleType) -> None:
    schedule = Schedule(2, 2)
    require_alike(toy.run(schedule=schedule, options=Options(compile=True)), toy.run(schedule=schedule))
