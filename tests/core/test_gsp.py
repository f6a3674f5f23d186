"""Generalized sum pooling against bisection, implicit differentiation and the printed propositions."""

from __future__ import annotations

import pytest
import torch
from core.oracles.gsp_transport import BATCH, EPSILONS, MUS, SIZES, cost_of, gradients, problem, solution
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.core.poolings.gsp import generalized_sum_pool, transport


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mu", MUS)
def test_plan_and_residual_and_their_gradients_are_those_of_the_fixed_point(
    mu: float, epsilon: float
) -> None:
    for size in SIZES:
        cost_BMN = cost_of(*problem(*size)).requires_grad_()
        expected, found = solution(cost_BMN, mu, epsilon), transport(cost_BMN, mu, epsilon)
        # π and ρ are numbers around 1/(M·N) and 1/N: relative errors say more than the 1e-6 that is asked for
        torch.testing.assert_close(tuple(found), expected, rtol=1e-10, atol=1e-15)
        wanted = expected if mu < 1 else expected[:1]
        (exact,) = gradients(wanted, (cost_BMN,))
        (ours,) = gradients(tuple(found)[: len(wanted)], (cost_BMN,))
        torch.testing.assert_close(ours, exact, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mu", MUS)
def test_pooled_features_and_their_gradients_are_those_of_the_fixed_point(mu: float, epsilon: float) -> None:
    for count, prototypes in SIZES:
        points = tuple(part.requires_grad_() for part in problem(count, prototypes))
        plan_BMN, residual_BN = solution(cost_of(*points), mu, epsilon)
        weights_BN = (1 / count - residual_BN) / mu
        pooled_BD = torch.einsum("bn,bnd->bd", weights_BN, points[0])
        expected = (pooled_BD, plan_BMN.sum(-1) / mu, weights_BN)
        found = generalized_sum_pool(*points, mu, epsilon)
        torch.testing.assert_close(tuple(found), expected, rtol=1e-9, atol=1e-13)
        kept = 2 if mu == 1 else 3  # at μ = 1 the weights are constants
        torch.testing.assert_close(
            gradients(tuple(found)[:kept], points), gradients(expected[:kept], points), rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mu", MUS)
def test_float32_keeps_five_digits_of_values_and_four_of_gradients(mu: float, epsilon: float) -> None:
    for size in SIZES:
        exact_points = tuple(part.requires_grad_() for part in problem(*size))
        rough_points = tuple(part.detach().float().requires_grad_() for part in exact_points)
        exact = generalized_sum_pool(*exact_points, mu, epsilon)
        rough = generalized_sum_pool(*rough_points, mu, epsilon)
        for ours, value in zip(rough, exact, strict=True):
            assert ours.dtype == torch.float32
            torch.testing.assert_close(ours.double(), value, rtol=1e-5, atol=1e-6)
        kept = 2 if mu == 1 else 3
        for ours, value in zip(
            gradients(tuple(rough)[:kept], rough_points),
            gradients(tuple(exact)[:kept], exact_points),
            strict=True,
        ):
            torch.testing.assert_close(ours.double(), value, rtol=1e-4, atol=1e-4 * float(value.abs().max()))


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 5.0), (0.9, 0.5), (0.99, 20.0)])
def test_the_backward_is_the_corrected_equation_5_2_2(mu: float, epsilon: float) -> None:
    cost_BMN = cost_of(*problem(20, 6)).requires_grad_()
    pi, rho = transport(cost_BMN, mu, epsilon)
    g_pi, g_rho = torch.randn_like(pi), torch.randn_like(rho)
    (found,) = torch.autograd.grad((pi, rho), cost_BMN, (g_pi, g_rho))
    count = 20
    q = rho * g_rho + (pi * g_pi).sum(1)
    eta = (rho * g_rho).sum(1) - count * (q * rho).sum(1)
    kappa = 1 - mu - count * (rho * rho).sum(1)
    inner = q - (eta / kappa).unsqueeze(1) * rho
    expected = -epsilon * (pi * g_pi - count * pi * inner.unsqueeze(1))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-13)


def test_the_backward_is_the_jacobian_of_appendix_b_3_with_its_matrix_inverse() -> None:
    mu, epsilon, count, prototypes = 0.4, 3.0, 5, 3
    cost_MN = cost_of(*problem(count, prototypes))[0].requires_grad_()
    pi, rho = transport(cost_MN.unsqueeze(0), mu, epsilon)
    g_pi, g_rho = torch.randn_like(pi), torch.randn_like(rho)
    (found,) = torch.autograd.grad((pi, rho), cost_MN, (g_pi, g_rho))
    x = torch.cat([rho.flatten(), pi.flatten()]).detach()
    a = torch.zeros(count + 1, len(x), dtype=torch.float64)
    a[:count] = torch.eye(count, dtype=torch.float64).repeat(1, prototypes + 1)
    a[count, count:] = 1
    ax = a * x
    jacobian = -epsilon * (x.diag() - ax.T @ torch.linalg.inv(ax @ a.T) @ ax)
    expected = jacobian[count:] @ torch.cat([g_rho.flatten(), g_pi.flatten()])
    torch.testing.assert_close(found.flatten(), expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("mu", [0.05, 0.5, 0.97, 1.0])
@pytest.mark.parametrize(("count", "prototypes"), [(1, 1), (1, 3), (4, 1), (5, 3)])
def test_gradients_are_those_of_finite_differences(mu: float, count: int, prototypes: int) -> None:
    points = tuple(part.requires_grad_() for part in problem(count, prototypes))
    cost_BMN = cost_of(*points).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: tuple(transport(c, mu, 4.0)), (cost_BMN,))
    assert torch.autograd.gradcheck(lambda f, w: tuple(generalized_sum_pool(f, w, mu, 4.0)), points)


@pytest.mark.parametrize("iterations", [1, 2, 100])
@pytest.mark.parametrize("mu", [0.3, 0.9])
def test_iterations_are_the_printed_passes(iterations: int, mu: float) -> None:
    features_BND, prototypes_MD = problem(49, 8)
    kernel_BMN = (-5.0 * cost_of(features_BND, prototypes_MD)).exp()
    t = torch.ones(BATCH, 1, dtype=torch.float64)
    for _ in range(iterations):
        rho = 1 / 49 / (1 + t * kernel_BMN.sum(1))
        t = mu / (kernel_BMN @ rho.unsqueeze(-1)).sum(1)
    pi = t.unsqueeze(1) * kernel_BMN * rho.unsqueeze(1)
    found = transport(cost_of(features_BND, prototypes_MD), mu, 5.0, iterations)
    torch.testing.assert_close(tuple(found), (pi, rho), rtol=1e-11, atol=1e-15)
    pooled = generalized_sum_pool(features_BND, prototypes_MD, mu, 5.0, iterations)
    expected = torch.einsum("bn,bnd->bd", (1 / 49 - rho) / mu, features_BND)
    torch.testing.assert_close(pooled.pooled_BD, expected, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(pooled.attributes_BM, pi.sum(-1) / mu, rtol=1e-10, atol=1e-13)


def test_enough_printed_passes_arrive_at_the_solution_and_its_gradient() -> None:
    cost_BMN = cost_of(*problem(49, 8)).requires_grad_()
    printed, solved = transport(cost_BMN, 0.9, 5.0, 2000), transport(cost_BMN, 0.9, 5.0)
    torch.testing.assert_close(tuple(printed), tuple(solved), rtol=1e-10, atol=0)
    found, expected = (gradients(tuple(both), (cost_BMN,)) for both in (printed, solved))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-13)


def test_at_mu_1_it_is_average_pooling_and_the_attributes_are_mean_similarities() -> None:
    points = tuple(part.requires_grad_() for part in problem(49, 8))
    pooled_BD, attributes_BM, weights_BN = generalized_sum_pool(*points, 1.0, 5.0)
    expected_BM = torch.softmax(-5.0 * cost_of(*points), 1).mean(-1)
    assert torch.equal(pooled_BD, points[0].mean(1))
    assert torch.equal(weights_BN, torch.full_like(weights_BN, 1 / 49))
    torch.testing.assert_close(attributes_BM, expected_BM, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        gradients((attributes_BM,), points), gradients((expected_BM,), points), rtol=1e-9, atol=1e-14
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mu_1_is_the_limit_of_mu_below_1_with_its_gradient(dtype: torch.dtype) -> None:
    points = tuple(part.to(dtype).requires_grad_() for part in problem(49, 8))
    limit, near = (generalized_sum_pool(*points, mu, 5.0) for mu in (1.0, 1 - 1e-9))
    torch.testing.assert_close(tuple(near), tuple(limit), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        gradients(tuple(near)[:2], points), gradients(tuple(limit)[:2], points), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("mu", [0.1, 0.99, 1.0])
def test_one_feature_is_its_own_pool_and_one_prototype_takes_everything(mu: float) -> None:
    features_BND, prototypes_MD = problem(1, 7)
    one = generalized_sum_pool(features_BND, prototypes_MD, mu, 5.0)
    torch.testing.assert_close(one.weights_BN, torch.ones(BATCH, 1, dtype=torch.float64), rtol=1e-14, atol=0)
    torch.testing.assert_close(one.pooled_BD, features_BND[:, 0], rtol=1e-14, atol=0)
    plan_BMN, residual_BN = transport(cost_of(features_BND, prototypes_MD), mu, 5.0)
    torch.testing.assert_close(
        residual_BN, torch.full((BATCH, 1), 1 - mu, dtype=torch.float64), rtol=1e-13, atol=0
    )
    torch.testing.assert_close(
        plan_BMN, mu * torch.softmax(-5.0 * cost_of(features_BND, prototypes_MD), 1), rtol=1e-13, atol=0
    )
    single = generalized_sum_pool(*problem(30, 1), mu, 5.0)
    torch.testing.assert_close(
        single.attributes_BM, torch.ones(BATCH, 1, dtype=torch.float64), rtol=1e-13, atol=0
    )


@given(seed=st.integers(0, 10**6), mu=st.floats(1e-4, 1), epsilon=st.floats(1e-2, 1e3), high=st.booleans())
@settings(max_examples=60, deadline=None)
def test_mass_is_kept_and_nearer_features_weigh_more(
    seed: int, mu: float, epsilon: float, high: bool
) -> None:
    dtype = torch.float64 if high else torch.float32
    cost_BMN = cost_of(*problem(12, 5, seed)).to(dtype)
    plan_BMN, residual_BN = transport(cost_BMN, mu, epsilon)
    tolerance = 1e-11 if high else 2e-5
    assert plan_BMN.min() >= 0
    assert residual_BN.min() >= 0
    column_BN = residual_BN + plan_BMN.sum(1)
    torch.testing.assert_close(column_BN, torch.full_like(column_BN, 1 / 12), rtol=tolerance, atol=0)
    total_B = plan_BMN.sum((1, 2))
    torch.testing.assert_close(total_B, torch.full_like(total_B, mu), rtol=tolerance, atol=0)
    near_BN = torch.logsumexp(-epsilon * cost_BMN, 1)
    by_distance_BN = plan_BMN.sum(1).gather(1, near_BN.argsort(1))
    assert (by_distance_BN.diff(dim=1) >= -tolerance).all()


@given(seed=st.integers(0, 10**6), shift=st.floats(-3, 3))
@settings(max_examples=20, deadline=None)
def test_order_does_not_matter_and_a_constant_cost_neither(seed: int, shift: float) -> None:
    features_BND, prototypes_MD = problem(12, 5, seed)
    generator = torch.Generator().manual_seed(seed)
    order, other = torch.randperm(12, generator=generator), torch.randperm(5, generator=generator)
    base = generalized_sum_pool(features_BND, prototypes_MD, 0.4, 5.0)
    moved = generalized_sum_pool(features_BND[:, order], prototypes_MD[other], 0.4, 5.0)
    torch.testing.assert_close(moved.pooled_BD, base.pooled_BD)
    torch.testing.assert_close(moved.attributes_BM, base.attributes_BM[:, other])
    torch.testing.assert_close(moved.weights_BN, base.weights_BN[:, order])
    cost_BMN = cost_of(features_BND, prototypes_MD)
    torch.testing.assert_close(
        tuple(transport(cost_BMN + shift, 0.4, 5.0)), tuple(transport(cost_BMN, 0.4, 5.0))
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mu", [0.3, 0.5, 0.7, 0.999])
@pytest.mark.parametrize("epsilon", [20.0, 1000.0])
def test_two_far_groups_of_features_are_taken_one_after_the_other(
    mu: float, epsilon: float, dtype: torch.dtype
) -> None:
    """Half of the features at a prototype, half far away: log t has nearly no slope in between."""
    cost_BMN = torch.tensor([0.0, 2.0], dtype=dtype).repeat_interleave(10).expand(1, 3, 20).clone()
    cost_BMN.requires_grad_()
    plan_BMN, residual_BN = transport(cost_BMN, mu, epsilon)
    near, far = min(1.0, 2 * mu), max(0.0, 2 * mu - 1)
    expected = torch.tensor([near, far], dtype=dtype).repeat_interleave(10) / 20
    torch.testing.assert_close(plan_BMN.sum(1)[0], expected, rtol=0, atol=1e-6)
    (grad_BMN,) = gradients((plan_BMN, residual_BN), (cost_BMN,))
    assert grad_BMN.isfinite().all()
