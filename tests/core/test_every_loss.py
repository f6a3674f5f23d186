"""The contract of every loss. Losses and their oracles (oracles/NAME.py) are found by file name.

An oracle file has EXAMPLES (parameters) and, in plain Python on nested lists,
`oracle(emb, labels, refs, ref_labels, same, **example)` for a pair loss (`same`: the references are the
batch), `oracle(emb, labels, weights, **example)` for a loss with proxies of its own (`weights`: its
parameters by name).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dmltune.core import components, losses
from dmltune.core.geometry import l2_normalise, lip
from dmltune.errors import UserError

ORACLES = Path(__file__).parent / "oracles"
CLASSES, DIM = 5, 4


def oracle_of(name: str) -> Any:
    path = ORACLES / f"{name}.py"
    assert path.exists(), f"{name} has no oracle; write tests/core/oracles/{name}.py (EXAMPLES, oracle)"
    spec = importlib.util.spec_from_file_location(f"oracle_of_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = components.names("losses")
CASES = [
    pytest.param(name, example, id=f"{name}-{i}")
    for name in NAMES
    if (ORACLES / f"{name}.py").exists()
    for i, example in enumerate(oracle_of(name).EXAMPLES)
]


def takes_references(loss: Any) -> bool:
    return bool(getattr(loss, "takes_references", True))


PAIRS = [case for case in CASES if takes_references(components.find("losses", case.values[0]))]
OTHERS = [case for case in CASES if case not in PAIRS]
EITHER = [
    pytest.param(*case.values, refs, id=f"{case.id}-{'references' if refs else 'batch'}")
    for refs in (False, True)
    for case in (PAIRS if refs else CASES)
]


def make(name: str, example: dict[str, Any], dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    return losses.load(name, num_classes=CLASSES, dim=DIM, **example).to(dtype)


def batch(seed: int, size: int = 9, refs: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = lip(torch.randn(size + refs, DIM, generator=generator, dtype=torch.float64) * 0.7)
    labels = torch.randint(CLASSES, (size + refs,), generator=generator)
    return points[:size], labels[:size], points[size:], labels[size:]


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_has_an_oracle_with_examples(name: str) -> None:
    assert oracle_of(name).EXAMPLES


@pytest.mark.parametrize("name", NAMES)
def test_every_tunable_parameter_has_a_default_and_every_number_a_range(name: str) -> None:
    for parameter in components.parameters(components.find("losses", name)).values():
        assert parameter.default is not parameter.empty
        if isinstance(parameter.default, float) or type(parameter.default) is int:
            limits = components.range_of(parameter)
            assert limits is not None
            assert components.contains(limits, parameter.default)


@pytest.mark.parametrize(("name", "example"), PAIRS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("with_references", [False, True])
def test_it_equals_its_oracle(name: str, example: dict[str, Any], seed: int, with_references: bool) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed)
    others = (refs_RD, ref_labels_R) if with_references else (emb_BD, labels_B)
    lists = [part.tolist() for part in (emb_BD, labels_B, *others)]
    expected = oracle_of(name).oracle(*lists, not with_references, **example)
    value = make(name, example)(emb_BD, labels_B, *(others if with_references else ()))
    assert value.dim() == 0
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("name", "example"), OTHERS)
@pytest.mark.parametrize("seed", range(5))
def test_with_proxies_of_its_own_it_equals_its_oracle(name: str, example: dict[str, Any], seed: int) -> None:
    emb_BD, labels_B, _, _ = batch(seed)
    loss = make(name, example)
    weights = {key: value.tolist() for key, value in loss.named_parameters()}
    expected = oracle_of(name).oracle(emb_BD.tolist(), labels_B.tolist(), weights, **example)
    value = loss(emb_BD, labels_B)
    assert value.dim() == 0
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("name", "example"), OTHERS)
def test_references_are_refused_by_a_loss_with_proxies_of_its_own(name: str, example: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="references: batch"):
        make(name, example)(*batch(0))


@pytest.mark.parametrize(("name", "example"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_its_gradient_is_that_of_finite_differences(name: str, example: dict[str, Any], seed: int) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed, size=6, refs=5)
    loss = make(name, example)
    emb_BD.requires_grad_()
    refs_RD.requires_grad_()
    weights = tuple(loss.parameters())  # moved in place by gradcheck, so the loss sees each change
    assert torch.autograd.gradcheck(lambda x, *_: loss(x, labels_B), (emb_BD, *weights))
    if takes_references(loss):
        assert torch.autograd.gradcheck(
            lambda x, y, *_: loss(x, labels_B, y, ref_labels_R), (emb_BD, refs_RD, *weights)
        )


@pytest.mark.parametrize(("name", "example"), CASES)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(9)))
@settings(max_examples=15, deadline=None)
def test_permuting_the_batch_leaves_it_unchanged(
    name: str, example: dict[str, Any], seed: int, order: list[int]
) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed)
    loss = make(name, example)
    for others in ((), (refs_RD, ref_labels_R)) if takes_references(loss) else ((),):
        expected = loss(emb_BD, labels_B, *others)
        torch.testing.assert_close(loss(emb_BD[order], labels_B[order], *others), expected)


@pytest.mark.parametrize(("name", "example", "with_references"), EITHER)
@pytest.mark.parametrize(
    "labels",
    [[0, 1, 2, 3, 4], [2, 2, 2, 2, 2], [1, 1, 1, 1, 3], [4], [2, 2]],
    ids=["no positives", "one class", "a lone class", "a lone sample", "one pair"],
)
def test_odd_batches_have_a_finite_loss_and_gradient(
    name: str, example: dict[str, Any], labels: list[int], with_references: bool
) -> None:
    labels_B = torch.tensor(labels)
    emb_BD = l2_normalise(torch.randn(len(labels), DIM)).requires_grad_()
    refs_RD = l2_normalise(torch.randn(3, DIM)).requires_grad_()
    loss = make(name, example, torch.float32)
    others = (refs_RD, torch.tensor([0, 0, 0])) if with_references else ()
    value = loss(emb_BD, labels_B, *others)
    torch.autograd.backward(value)
    assert value.isfinite()
    assert emb_BD.grad is not None
    assert emb_BD.grad.isfinite().all()
    if with_references:
        assert refs_RD.grad is not None
        assert refs_RD.grad.isfinite().all()


@pytest.mark.parametrize(("name", "example", "with_references"), EITHER)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-18, 1.0, 1e6, 1e18, 1e30])
@pytest.mark.parametrize("equal", [False, True])
def test_float32_values_and_gradients_are_finite_for_any_size_of_input(
    name: str, example: dict[str, Any], with_references: bool, scale: float, equal: bool
) -> None:
    emb_BD = l2_normalise(torch.randn(1 if equal else 8, DIM)).expand(8, DIM) * scale
    emb_BD = emb_BD.clone().requires_grad_()
    refs_RD = emb_BD.detach().clone().requires_grad_()
    labels_B = torch.arange(8) // 2
    loss = make(name, example, torch.float32)
    value = loss(emb_BD, labels_B, *((refs_RD, labels_B) if with_references else ()))
    torch.autograd.backward(value)
    assert value.isfinite()
    assert emb_BD.grad is not None
    assert emb_BD.grad.isfinite().all()
    if with_references:
        assert refs_RD.grad is not None
        assert refs_RD.grad.isfinite().all()


@pytest.mark.parametrize(("name", "example"), PAIRS)
def test_the_gradient_reaches_the_references(name: str, example: dict[str, Any]) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(0, size=20, refs=20)
    refs_RD.requires_grad_()
    torch.autograd.backward(make(name, example)(emb_BD, labels_B, refs_RD, ref_labels_R))
    assert refs_RD.grad is not None
    assert refs_RD.grad.abs().sum() > 0


@pytest.mark.parametrize(("name", "example"), CASES)
def test_it_computes_in_the_dtype_it_is_given_or_raises_half_types(
    name: str, example: dict[str, Any]
) -> None:
    emb_BD, labels_B, _, _ = batch(1)
    exact = make(name, example)(emb_BD, labels_B)
    assert exact.dtype == torch.float64
    for half in (torch.bfloat16, torch.float16):
        rough = make(name, example, torch.float32)(emb_BD.to(half), labels_B)
        assert rough.dtype in (half, torch.float32)
        assert rough.item() == pytest.approx(exact.item(), rel=0.1, abs=0.05)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_its_state_survives_a_round_trip(name: str, example: dict[str, Any]) -> None:
    emb_BD, labels_B, _, _ = batch(2)
    loss, other = make(name, example), make(name, example)
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(emb_BD, labels_B), loss(emb_BD, labels_B))
