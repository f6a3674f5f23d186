"""The contract of every loss. Losses and their oracles (oracles/NAME.py) are found by file name.

An oracle file has EXAMPLES (parameters) and, in plain Python on nested lists,
`oracle(emb, labels, refs, ref_labels, same, **example)` for a pair loss (`same`: the references are the
batch), `oracle(emb, labels, weights, **example)` for a loss with proxies of its own (`weights`: its
parameters by name). A loss without an oracle is tested at its defaults, and one test says what to write.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.loss_cases import CASES, DIM, NAMES, OTHERS, PAIRS, batch, make, oracle_of, takes_references
from torch import Tensor, nn

from dmltune.core import components
from dmltune.core.geometry import l2_normalise
from dmltune.errors import UserError


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_has_an_oracle_with_examples(name: str) -> None:
    advice = f"loss '{name}' has no slow oracle; write tests/core/oracles/{name}.py (EXAMPLES, oracle)"
    assert getattr(oracle_of(name), "EXAMPLES", None), advice


@pytest.mark.parametrize("name", NAMES)
def test_every_tunable_parameter_has_a_default_and_every_number_a_range(name: str) -> None:
    for parameter in components.parameters(components.find("losses", name)).values():
        assert parameter.default is not parameter.empty
        if isinstance(parameter.default, float) or type(parameter.default) is int:
            limits = components.range_of(parameter)
            assert limits is not None
            assert components.contains(limits, parameter.default)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_it_equals_its_oracle(name: str, example: dict[str, Any]) -> None:
    if (slow := oracle_of(name)) is None:
        pytest.skip("no oracle yet")
    loss = make(name, example)
    weights = {key: value.tolist() for key, value in loss.named_parameters()}
    for seed in range(5):
        emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed)
        emb, labels = emb_BD.tolist(), labels_B.tolist()
        if takes_references(name):
            expected = slow.oracle(emb, labels, refs_RD.tolist(), ref_labels_R.tolist(), False, **example)
            value = loss(emb_BD, labels_B, refs_RD, ref_labels_R)
            assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-13)
            expected = slow.oracle(emb, labels, emb, labels, True, **example)
        else:
            expected = slow.oracle(emb, labels, weights, **example)
        value = loss(emb_BD, labels_B)
        assert value.dim() == 0
        assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(("name", "example"), OTHERS)
def test_references_are_refused_by_a_loss_with_proxies_of_its_own(name: str, example: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="references: batch"):
        make(name, example)(*batch(0))


@pytest.mark.parametrize(("name", "example"), CASES)
def test_its_gradient_is_that_of_finite_differences(name: str, example: dict[str, Any]) -> None:
    for seed in range(3):
        emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed, size=6, refs=5)
        loss = make(name, example)
        emb_BD.requires_grad_()
        refs_RD.requires_grad_()
        weights = tuple(loss.parameters())  # moved in place by gradcheck, so the loss sees each change
        alone = lambda x, *_, loss=loss, labels_B=labels_B: loss(x, labels_B)  # noqa: E731
        assert torch.autograd.gradcheck(alone, (emb_BD, *weights))
        if takes_references(name):
            both = lambda x, y, *_, f=loss, a=labels_B, b=ref_labels_R: f(x, a, y, b)  # noqa: E731
            assert torch.autograd.gradcheck(both, (emb_BD, refs_RD, *weights))


@pytest.mark.parametrize(("name", "example"), CASES)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(9)))
@settings(max_examples=15, deadline=None)
def test_permuting_the_batch_leaves_it_unchanged(
    name: str, example: dict[str, Any], seed: int, order: list[int]
) -> None:
    emb_BD, labels_B, refs_RD, ref_labels_R = batch(seed)
    loss = make(name, example)
    for others in ((), (refs_RD, ref_labels_R)) if takes_references(name) else ((),):
        expected = loss(emb_BD, labels_B, *others)
        torch.testing.assert_close(loss(emb_BD[order], labels_B[order], *others), expected)


def require_finite(loss: nn.Module, name: str, emb_BD: Tensor, labels_B: Tensor, *others: Tensor) -> None:
    """The value and all gradients are finite, of the batch alone and against `others` where it takes them."""
    for refs in ((), others) if takes_references(name) else ((),):
        points = [part.clone().requires_grad_() for part in (emb_BD, *refs[:1])]
        value = loss(points[0], labels_B, *points[1:], *refs[1:])
        torch.autograd.backward(value)
        assert value.isfinite()
        assert all(part.grad is not None and part.grad.isfinite().all() for part in points)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_odd_batches_have_a_finite_loss_and_gradient(name: str, example: dict[str, Any]) -> None:
    no_positives, one_class, lone_class, lone_sample, one_pair = (
        range(5),
        [2] * 5,
        [1, 1, 1, 1, 3],
        [4],
        [2, 2],
    )
    for labels in (no_positives, one_class, lone_class, lone_sample, one_pair):
        emb_BD, refs_RD = l2_normalise(torch.randn(len(labels), DIM)), l2_normalise(torch.randn(3, DIM))
        loss = make(name, example, torch.float32)
        require_finite(loss, name, emb_BD, torch.tensor(labels), refs_RD, torch.tensor([0, 0, 0]))


@pytest.mark.parametrize(("name", "example"), CASES)
def test_float32_values_and_gradients_are_finite_for_any_size_of_input(
    name: str, example: dict[str, Any]
) -> None:
    labels_B = torch.arange(8) // 2
    for different in (1, 8):
        for scale in (0.0, 1e-30, 1e-18, 1.0, 1e6, 1e18, 1e30):
            emb_BD = l2_normalise(torch.randn(different, DIM)).expand(8, DIM) * scale
            require_finite(make(name, example, torch.float32), name, emb_BD, labels_B, emb_BD, labels_B)


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
