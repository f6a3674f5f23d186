"""The cross-batch memory: a ring that is right, and a loss that is the batch's plus the memory's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dmltune.core import losses, references
from dmltune.core.fit import Schedule, fit
from dmltune.core.geometry import l2_normalise
from dmltune.core.references.xbm import Xbm
from dmltune.errors import UserError

DIM = 4


def xbm(**parameters: Any) -> Xbm:
    method = references.load("xbm", num_classes=9, dim=DIM, **{"start_step": 0, **parameters}).double()
    assert isinstance(method, Xbm)
    return method


def batch(size: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """Labels are running numbers, which tell every item apart; a point's first entry is its label."""
    labels = torch.arange(first, first + size)
    points = torch.randn(size, DIM, dtype=torch.float64)
    points[:, 0] = labels
    return points, labels


class Count(nn.Module):
    """Stands in for a loss: the sum of the batch, or of the references."""

    def forward(
        self, emb_BD: Tensor, labels_B: Tensor, refs_RD: Any = None, ref_labels_R: Any = None
    ) -> Tensor:
        return emb_BD.sum() if refs_RD is None else refs_RD.sum()


@given(size=st.integers(1, 12), batches=st.lists(st.integers(0, 30), max_size=12))
@settings(max_examples=150, deadline=None)
def test_it_holds_the_last_items_whatever_the_sizes(size: int, batches: list[int]) -> None:
    method, seen = xbm(size=size), 0
    for count in batches:
        method(Count(), *batch(count, seen))
        seen += count
        held = min(size, seen)
        assert method.figures() == {"memory": held}
        assert sorted(method.memory_labels[:held].tolist()) == list(range(seen - held, seen))
        assert method.memory[:held, 0].tolist() == method.memory_labels[:held].tolist()


@pytest.mark.parametrize("name", ["contrastive_cosine", "contrastive", "fastap"])
def test_the_loss_is_the_batch_loss_plus_the_weighted_loss_against_the_memory_with_the_batch_in_it(
    name: str,
) -> None:
    loss, method = losses.load(name), xbm(size=10, weight=0.7)
    all_points = [l2_normalise(torch.randn(4, DIM, dtype=torch.float64)) for _ in range(4)]
    labels = torch.tensor([0, 0, 1, 2])
    for points in all_points[:-1]:
        method(loss, points, labels)
    last = all_points[-1].clone().requires_grad_()
    value = method(loss, last, labels)
    kept, kept_labels = torch.cat(all_points)[-10:], labels.repeat(4)[-10:]
    again = all_points[-1].clone().requires_grad_()
    expected = loss(again, labels) + 0.7 * loss(again, labels, kept, kept_labels)
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=0)
    torch.autograd.backward([value, expected])  # the memory has no gradient: its samples are detached
    torch.testing.assert_close(last.grad, again.grad, rtol=1e-12, atol=1e-15)
    assert not method.memory.requires_grad


@pytest.mark.parametrize("name", ["contrastive_cosine", "contrastive"])
def test_the_own_copy_in_the_memory_does_not_move_a_sample_on_the_sphere(name: str) -> None:
    raw = torch.randn(1, DIM, dtype=torch.float64, requires_grad=True)
    copy, labels = l2_normalise(raw).detach(), torch.tensor([0, 1, 1])
    others = l2_normalise(copy + 0.1 * torch.randn(2, DIM, dtype=torch.float64))
    loss = losses.load(name)
    value = loss(l2_normalise(raw), labels[:1], torch.cat([copy, others]), labels)
    (with_copy,) = torch.autograd.grad(value, raw)
    (without,) = torch.autograd.grad(loss(l2_normalise(raw), labels[:1], others, labels[1:]), raw)
    torch.testing.assert_close(with_copy, without, rtol=0, atol=1e-14)
    assert without.abs().max() > 0.01


def test_the_memory_joins_at_the_start_step_and_is_filled_before() -> None:
    method = xbm(size=100, start_step=2)
    points = [batch(3, 3 * i) for i in range(4)]
    values = [method(Count(), *points[i]).item() for i in range(4)]
    sums = [emb.sum().item() for emb, _ in points]
    assert values[:2] == pytest.approx(sums[:2])
    assert values[2:] == pytest.approx([sums[2] + sum(sums[:3]), sums[3] + sum(sums)])
    assert method.figures() == {"memory": 12}


def test_evaluation_computes_with_the_memory_and_leaves_it_as_it_is() -> None:
    method = xbm(size=5)
    method.eval()
    emb, labels = batch(3)
    assert method(Count(), emb, labels).item() == pytest.approx(emb.sum().item())  # nothing in it yet
    method.train()
    method(Count(), emb, labels)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.eval()
    other, other_labels = batch(4, 50)
    assert method(Count(), other, other_labels).item() == pytest.approx((other.sum() + emb.sum()).item())
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


@pytest.mark.parametrize("steps", [0, 2, 7])
def test_the_state_dict_alone_resumes_it_bit_for_bit(steps: int) -> None:
    loss, method, other = losses.load("contrastive"), xbm(size=11, start_step=3), xbm(size=11, start_step=3)
    for _ in range(steps):
        method(loss, l2_normalise(torch.randn(4, DIM, dtype=torch.float64)), torch.randint(3, (4,)))
    other.load_state_dict(method.state_dict())
    for _ in range(6):
        emb, labels = l2_normalise(torch.randn(4, DIM, dtype=torch.float64)), torch.randint(3, (4,))
        assert torch.equal(method(loss, emb, labels), other(loss, emb, labels))
    for (name, mine), theirs in zip(method.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name


def test_everything_it_remembers_is_in_its_buffers() -> None:
    names = {"memory", "memory_labels", "held", "next_slot", "steps"}
    assert set(xbm().state_dict()) == names
    assert xbm().normalise == "l2"
    assert not list(xbm().parameters())


def test_half_types_are_kept_in_the_memorys_own_type() -> None:
    method = references.load("xbm", num_classes=2, dim=DIM, size=3, start_step=0)
    points = l2_normalise(torch.randn(5, DIM)).to(torch.bfloat16)
    value = method(losses.load("contrastive"), points, torch.tensor([0, 0, 1, 1, 1]))
    assert value.isfinite()
    assert method.memory.dtype == torch.float32
    assert torch.equal(method.memory.sort(0).values, points[2:].float().sort(0).values)


def test_a_loss_with_proxies_of_its_own_is_refused_before_the_memory_joins() -> None:
    class OwnProxies(Count):
        takes_references = False

    with pytest.raises(UserError, match="references: batch"):
        xbm(start_step=1000)(OwnProxies(), *batch(3))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"start_step": -1}, {"weight": -0.1}])
def test_impossible_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"xbm: {next(iter(wrong))} must be at least"):
        xbm(**wrong)


def test_a_training_with_a_memory_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(toy: ModuleType) -> None:
    def start() -> Any:
        schedule = Schedule(max_steps=9, validate_every=3)
        return toy.run("xbm", schedule, size=31, start_step=2)

    whole, first, second = start(), start(), start()
    assert [progress.step for progress in fit(whole)] == [0, 3, 6, 9]
    for progress in fit(first):
        if progress.step == 6:
            break
    second.restore(*first.state())
    *_, end = fit(second)
    assert end.metrics["memory"] == 31
    assert end.step == progress.step + 3
    for (name, mine), theirs in zip(
        second.objective.state_dict().items(), whole.objective.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs), name
