"""What is computed with masks on a device equals what is computed with choices on a CPU."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from support.loss_cases import CASES, CLASSES, DIM, batch, make, takes_references
from torch import Tensor, nn

from dmltune.core import fixed_shapes, references, transforms
from dmltune.core.geometry import l2_normalise, pairwise_distance
from dmltune.core.poolings.gsp import Gsp, transport
from dmltune.core.random_numbers import uniform
from dmltune.core.references.xbm import Xbm
from dmltune.core.zero_shot import zero_shot_loss


def value_and_gradients(loss: nn.Module, emb_BD: Tensor, labels_B: Tensor, *refs: Tensor) -> list[Tensor]:
    points = [part.clone().requires_grad_() for part in (emb_BD, *refs[:1])]
    value = loss(points[0], labels_B, *points[1:], *refs[1:])
    learning = [*points, *loss.parameters()]
    gradients = torch.autograd.grad(value, learning, allow_unused=True)
    return [value.detach(), *(torch.zeros(1) if part is None else part for part in gradients)]


@pytest.mark.parametrize(("name", "example"), CASES)
def test_a_loss_is_the_same_with_fixed_shapes(name: str, example: dict[str, Any]) -> None:
    loss = make(name, example)
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(4)
    alone = torch.arange(len(labels_B)) % CLASSES if takes_references(name) else labels_B
    for labels in (labels_B, torch.zeros_like(labels_B), alone):
        for refs in ((), (refs_RD, ref_labels_R)) if takes_references(name) else ((),):
            expected = value_and_gradients(loss, emb_BD, labels, *refs)
            with fixed_shapes.always():
                found = value_and_gradients(loss, emb_BD, labels, *refs)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_with_fixed_shapes_a_batch_without_positives_has_finite_gradients(
    name: str, example: dict[str, Any]
) -> None:
    loss = make(name, example, torch.float32)
    emb_BD = l2_normalise(torch.randn(CLASSES, DIM))
    with fixed_shapes.always():
        for points in (emb_BD, emb_BD[:1].expand(CLASSES, DIM).clone()):
            parts = value_and_gradients(loss, points, torch.arange(CLASSES))
            assert all(part.isfinite().all() for part in parts)


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(("name", "example"), CASES)
def test_a_point_with_a_label_below_0_takes_no_part(name: str, example: dict[str, Any], always: bool) -> None:
    loss = make(name, example)
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(7)
    taken_B = torch.tensor([True, False, True, True, True, False, True, True, False])
    left_B = torch.where(taken_B, labels_B, torch.tensor([-1, -2, -3] * 3))
    for refs in ((), (refs_RD, ref_labels_R)) if takes_references(name) else ((),):
        expected = value_and_gradients(loss, emb_BD[taken_B], labels_B[taken_B], *refs)
        with fixed_shapes.always() if always else nullcontext():
            found = value_and_gradients(loss, emb_BD, left_B, *refs)
            nothing = value_and_gradients(loss, emb_BD, torch.full_like(left_B, -1), *refs)
        assert not found[1][~taken_B].any()
        found[1] = found[1][taken_B]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
        assert not nothing[1].any()
        assert all(part.isfinite().all() for part in nothing)


@pytest.mark.parametrize("squared", [False, True])
def test_distances_of_near_and_equal_points_are_accurate(squared: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x_BD = l2_normalise(torch.randn(30, 128, generator=generator))
    gaps = 10.0 ** -torch.arange(1, 7).repeat(5).unsqueeze(1)
    y_BD = l2_normalise(x_BD + gaps * torch.randn(30, 128, generator=generator) / 128**0.5)
    y_BD[0] = x_BD[0]
    x_BD.requires_grad_()
    exact_BD = x_BD.detach().double().requires_grad_()
    with fixed_shapes.always():
        found_BB = pairwise_distance(x_BD, y_BD, squared)
    gap_BBD = exact_BD.unsqueeze(1) - y_BD.double()
    expected_BB = gap_BBD.square().sum(-1)
    wanted_BB = expected_BB if squared else expected_BB.sqrt()
    torch.testing.assert_close(found_BB.double(), wanted_BB, rtol=1e-5, atol=1e-14 if squared else 1e-9)
    assert found_BB[0, 0] == 0
    torch.autograd.backward(found_BB.sum())
    safe_BB = expected_BB + (expected_BB == 0)
    torch.autograd.backward((safe_BB if squared else safe_BB.sqrt() * (expected_BB > 0)).sum())
    assert x_BD.grad is not None
    assert exact_BD.grad is not None
    # the direction of two points that are 1e-6 apart has two digits in float32
    torch.testing.assert_close(x_BD.grad.double(), exact_BD.grad, rtol=1e-4, atol=1e-3)


def test_distances_have_the_gradient_of_finite_differences_and_take_a_class_dimension() -> None:
    x, y = torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64)
    x.requires_grad_()
    y.requires_grad_()
    with fixed_shapes.always():
        for squared in (False, True):
            assert torch.autograd.gradcheck(lambda a, b, s=squared: pairwise_distance(a, b, s), (x, y))


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-18, 1e6, 1e18, 1e30])
def test_distances_are_finite_for_any_size_of_input(scale: float) -> None:
    x_BD = (torch.randn(5, 4) * scale).requires_grad_()
    with fixed_shapes.always():
        value = pairwise_distance(x_BD, x_BD.detach().flip(0))
    torch.autograd.backward(value.sum())
    assert value.isfinite().all()
    assert x_BD.grad is not None
    assert x_BD.grad.isfinite().all()


@pytest.mark.parametrize("mu", [1e-3, 0.3, 0.99])
@pytest.mark.parametrize("epsilon", [0.1, 5.0, 500.0])
def test_a_fixed_number_of_passes_solves_the_transport(mu: float, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(1)
    for spread in (1e-3, 1.0, 10.0):
        cost = torch.rand(4, 8, 49, generator=generator) * spread
        cost[0] = cost[0, :, :1]
        cost[1, :, 0] = 0  # one feature far nearer than all others
        expected = transport(cost, mu, epsilon)
        with fixed_shapes.always():
            found = transport(cost, mu, epsilon)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("scheme", ["balanced", "unbalanced"])
@pytest.mark.parametrize("form", ["rotate", "degenerate", "ftl"])
@pytest.mark.parametrize("loss", ["contrastive", "multi_similarity", "proxy_anchor", "n_pair"])
def test_generated_points_have_the_same_loss_also_before_all_classes_are_known(
    loss: str, form: str, scheme: str
) -> None:
    counts_C = torch.tensor([3, 30, 5, 20, 40])
    torch.manual_seed(0)
    chosen = transforms.load("sft", CLASSES, DIM, counts_C, form=form, scheme=scheme, tail_below=10)
    other, compared = copy.deepcopy(chosen), make(loss, {}, torch.float32)
    generated = 0
    for step in range(4):
        raw_BD = torch.randn(10, DIM)
        labels_B = torch.randint(3 + step // 2, (10,))
        emb_BD = l2_normalise(raw_BD)
        points_GD, labels_G = chosen.generate(raw_BD, emb_BD, labels_B)
        with fixed_shapes.always():
            all_BD, all_B = other.generate(raw_BD, emb_BD, labels_B)
            found = compared(all_BD, all_B)
        assert torch.equal(all_B[all_B >= 0], labels_G)
        torch.testing.assert_close(all_BD[all_B >= 0], points_GD)
        if len(labels_G):
            torch.testing.assert_close(found, compared(points_GD, labels_G), rtol=1e-4, atol=1e-5)
        generated += len(labels_G)
        chosen.update_(raw_BD, emb_BD, labels_B)
        other.update_(raw_BD, emb_BD, labels_B)
    assert generated


def split_mix(state: int) -> int:
    """SplitMix64 as published, on whole numbers of Python."""
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_random_numbers_are_split_mix_of_their_place() -> None:
    seed, draw = torch.tensor(1234567), torch.tensor(9)
    start = split_mix(1234567)
    places = [start + (i + (9 << 32)) * 0x9E3779B97F4A7C15 for i in range(20)]
    expected = [(split_mix(place) >> 11) / 2**53 for place in places]
    assert uniform(seed, draw, 20).tolist() == expected


def test_random_numbers_are_uniform_and_no_two_draws_are_alike() -> None:
    draws = torch.stack([uniform(torch.tensor(3), torch.tensor(draw), 500) for draw in range(200)])
    counts = torch.histc(draws, 20, 0, 1)
    assert ((counts - 5000).abs() < 5 * 5000**0.5).all()
    assert len(draws.unique()) == draws.numel()
    correlation = torch.corrcoef(draws)
    assert (correlation - torch.eye(200, dtype=torch.float64)).abs().max() < 0.25


def test_numbers_on_the_host_are_tensors_in_a_state_as_they_were() -> None:
    memory = references.load("xbm", CLASSES, DIM, size=5)
    assert isinstance(memory, Xbm)
    memory.held, memory.next_slot, memory.steps = 4, 4, 2
    state = memory.state_dict()
    assert (int(state["held"]), state["held"].dtype) == (4, torch.int64)
    other = references.load("xbm", CLASSES, DIM, size=5)
    other.load_state_dict(state)
    assert (other.held, other.next_slot, other.steps) == (4, 4, 2)
    pooling = Gsp(channels=DIM)
    assert pooling.state_dict()["started"].dtype == torch.bool
    pooling.load_state_dict(pooling.state_dict() | {"started": torch.tensor(True)})
    assert pooling.started is True
    del state["held"]
    with pytest.raises(RuntimeError, match="held"):
        other.load_state_dict(state)


def test_every_second_class_is_that_of_the_sorted_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        labels_B = torch.randint(9, (12,), generator=generator)
        attributes_BM = torch.rand(12, 5, generator=generator).softmax(1)
        names_CD = torch.randn(9, 4, generator=generator)
        split = torch.unique(labels_B, return_inverse=True)[1] % 2 == 0
        found = zero_shot_loss(attributes_BM, labels_B, names_CD)
        assert found == zero_shot_loss(attributes_BM, labels_B, names_CD, split=split)
