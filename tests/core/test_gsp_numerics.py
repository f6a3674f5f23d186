"""Generalized sum pooling: hard problems, passes of the solver, memory, small types."""

from __future__ import annotations

import pytest
import torch
from core.oracles.gsp_transport import BATCH, EPSILONS, MUS, SIZES, cost_of, gradients, problem
from torch.autograd.graph import saved_tensors_hooks

from dmltune.core.poolings import _transport
from dmltune.core.poolings.gsp import generalized_sum_pool, transport


def test_in_float32_one_feature_between_two_large_groups_keeps_its_digits() -> None:
    """It alone settles log t, with 1/401 of the sum over the features."""
    groups = torch.tensor([0.0, 1.0, 2.0]).repeat_interleave(torch.tensor([200, 1, 200]))
    _, residual_BN = transport(groups.view(1, 1, 401), 200.3 / 401, 40.0)
    assert 401 * residual_BN[0, 200].item() == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize("excess", [1e-4, 1e-8, 1e-12])
def test_far_groups_do_not_make_newton_creep(excess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the plateau the equation is an exponential, which plain Newton steps along one by one."""
    cost_BMN = torch.tensor([0.0] * 19 + [100.0], dtype=torch.float64).view(1, 1, 20)
    for mu in (0.95 + excess, 0.95 - excess):
        exact = transport(cost_BMN, mu, 20.0)
        with monkeypatch.context() as patch:
            patch.setattr(_transport, "_PASSES", 18)
            found = transport(cost_BMN, mu, 20.0)
        torch.testing.assert_close(tuple(found), tuple(exact), rtol=1e-10, atol=1e-17)
        torch.testing.assert_close(
            exact.plan_BMN.sum(), torch.tensor(mu, dtype=torch.float64), rtol=1e-14, atol=0
        )


def test_a_dozen_passes_are_enough_for_every_problem_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = [cost_of(*problem(*size)) for size in SIZES]
    cases = [(c, mu, epsilon) for c in costs for mu in (*MUS[:-1], 1e-3, 0.9999) for epsilon in EPSILONS]
    exact = [transport(*case).residual_BN for case in cases]
    monkeypatch.setattr(_transport, "_PASSES", 12)
    for case, residual_BN in zip(cases, exact, strict=True):
        torch.testing.assert_close(transport(*case).residual_BN, residual_BN, rtol=1e-12, atol=0)


def kept_for_the_backward(iterations: int | None) -> tuple[int, int]:
    """Numbers saved by (transport, the whole pooling)."""
    points = tuple(part.requires_grad_() for part in problem(49, 8))
    cost_BMN = cost_of(*points).detach().requires_grad_()
    totals = []
    for call in (
        lambda: transport(cost_BMN, 0.9, 5.0, iterations),
        lambda: generalized_sum_pool(*points, 0.9, 5.0, iterations),
    ):
        sizes: list[int] = []
        with saved_tensors_hooks(lambda t, kept=sizes: kept.append(t.numel()) or t, lambda t: t):
            call()
        totals.append(sum(sizes))
    return totals[0], totals[1]


def test_what_the_backward_needs_does_not_grow_with_the_passes() -> None:
    one = kept_for_the_backward(1)
    assert one == kept_for_the_backward(100) == kept_for_the_backward(None)
    assert one[0] == BATCH * 49 * (8 + 2)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-18, 1.0, 1e6, 1e18, 1e30])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_float32_gradients_are_finite_for_any_size_of_input(scale: float, mu: float) -> None:
    features_BND, prototypes_MD = (part.float() for part in problem(9, 4))
    for features, prototypes in (
        (features_BND * scale, prototypes_MD),
        (features_BND, prototypes_MD * scale),
        (features_BND * scale, features_BND[0, :4] * scale),
    ):
        points = (features.clone().requires_grad_(), prototypes.clone().requires_grad_())
        found = generalized_sum_pool(*points, mu, 5.0)
        for value in (*found, *gradients(tuple(found)[:2], points)):
            assert value.isfinite().all()


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_types_are_raised(half: torch.dtype) -> None:
    features_BND, prototypes_MD = problem(9, 4)
    rough = generalized_sum_pool(features_BND.to(half), prototypes_MD.to(half), 0.5, 20.0)
    exact = generalized_sum_pool(features_BND.to(half).double(), prototypes_MD.to(half).double(), 0.5, 20.0)
    for ours, value in zip(rough, exact, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", [(0.0, 5.0, None), (1.1, 5.0, None), (0.5, 0.0, None), (0.5, 5.0, 0)])
def test_impossible_settings_are_refused(wrong: tuple[float, float, int | None]) -> None:
    with pytest.raises(ValueError, match="mu must be above 0"):
        transport(torch.rand(1, 2, 3), *wrong)
