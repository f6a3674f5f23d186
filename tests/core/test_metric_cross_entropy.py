"""Metric cross-entropy: a metric exactly where its condition holds, the lemmas of seed 002, accuracy."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from dmltune.core import losses
from dmltune.core.losses.metric_cross_entropy import MetricCrossEntropy, concave, distance, is_metric
from dmltune.errors import UserError
from dmltune.experiment.space.expression import compile_expression

C = 4
numbers = st.floats(0, 1)
vectors = st.lists(numbers, min_size=C, max_size=C).map(lambda v: torch.tensor([v], dtype=torch.float64))


Form = tuple[Literal["identity", "power", "log"], float, float]  # F, its power, its rate
forms = st.tuples(st.sampled_from(("identity", "power", "log")), st.floats(0.01, 1), st.floats(0.01, 50))
distances = st.floats(0, 50, allow_subnormal=False)


def largest_p(k: float) -> float:
    return math.log2(1 + math.sqrt(1 - k))


@st.composite
def metrics(draw: Any) -> tuple[float, float, float]:
    """a, b, p that satisfy the condition, up to its border."""
    a, k = draw(st.floats(0, 9)), draw(st.floats(0.01, 0.999))
    return a, k * (a + 1), draw(st.floats(0.02, 1)) * largest_p(k) * (1 - 1e-9)


@st.composite
def probabilities(draw: Any) -> Tensor:
    logits = draw(st.lists(st.floats(-12, 12), min_size=C, max_size=C))
    return torch.tensor([logits], dtype=torch.float64).softmax(-1)


def one_hot(label: int) -> Tensor:
    return torch.eye(C, dtype=torch.float64)[label : label + 1]


def value(x: Tensor, y: Tensor, abp: tuple[float, float, float]) -> float:
    return distance(x, y, *abp).item()


def outer(total: float, form: Form) -> float:
    return concave(torch.tensor([total], dtype=torch.float64), *form).item()


@given(abp=metrics())
@settings(deadline=None)
def test_the_condition_is_a_bound_on_p(abp: tuple[float, float, float]) -> None:
    a, b, _ = abp
    bound = largest_p(b / (a + 1))
    assert is_metric(*abp)
    assert is_metric(a, b, bound * (1 - 1e-9))
    assert not is_metric(a, b, bound * (1 + 1e-9))


def test_no_metric_outside_of_what_the_logarithm_takes() -> None:
    for a, b, p in (
        (0, 1, 1),
        (1, 1, 1),
        (1, 3, 0.1),
        (1, 0, 0.5),
        (1, -1, 0.5),
        (1, 1, 0),
        (1, 1, 3),
        (-1, 1, 1),
    ):
        assert not is_metric(a, b, p)
    assert is_metric(1, 1, 0.75)


@given(abp=metrics(), x=vectors, y=vectors, z=vectors)
@settings(max_examples=300, deadline=None)
def test_where_the_condition_holds_it_is_a_metric(
    abp: tuple[float, float, float], x: Tensor, y: Tensor, z: Tensor
) -> None:
    assert value(x, z, abp) <= value(x, y, abp) + value(y, z, abp) + 1e-12
    assert value(x, y, abp) == value(y, x, abp)
    assert value(x, x, abp) == 0
    assert value(x, y, abp) > 0 or (x - y).abs().max() ** abp[2] < 1e-300  # underflow


@given(a=st.floats(0, 9), k=st.floats(0.02, 0.999), share=st.floats(0.01, 1))
@settings(deadline=None)
def test_where_it_does_not_hold_the_middle_between_0_and_1_is_a_counter_example(
    a: float, k: float, share: float
) -> None:
    bound = largest_p(k)
    p = bound + share * (1 - bound)
    assume(not is_metric(a, k * (a + 1), p) and p > bound + 1e-6)
    low, middle, high = (torch.tensor([[t]], dtype=torch.float64) for t in (0.0, 0.5, 1.0))
    abp = (a, k * (a + 1), p)
    assert value(low, high, abp) > value(low, middle, abp) + value(middle, high, abp)


@given(abp=metrics())
@settings(deadline=None)
def test_two_labels_are_2m_apart_by_lemma_1(abp: tuple[float, float, float]) -> None:
    a, b, _ = abp
    m = -math.log(1 + a - b) + math.log(1 + a)
    assert value(one_hot(0), one_hot(2), abp) == pytest.approx(2 * m, rel=1e-9)


@given(abp=metrics(), x=probabilities(), y=probabilities(), form=forms)
@settings(deadline=None)
def test_samples_of_one_label_are_within_twice_the_worst_loss_by_lemma_3(
    abp: tuple[float, float, float], x: Tensor, y: Tensor, form: Form
) -> None:
    for kind in (abp, (0.0, 1.0, 1.0)):  # a weak metric is enough
        worst = max(outer(value(z, one_hot(1), kind), form) for z in (x, y))
        assert outer(value(x, y, kind), form) <= 2 * worst + 1e-9


@given(abp=metrics(), x=probabilities(), y=probabilities(), form=forms)
@settings(deadline=None)
def test_samples_of_two_labels_stay_apart_by_lemma_4(
    abp: tuple[float, float, float], x: Tensor, y: Tensor, form: Form
) -> None:
    a, b, _ = abp
    worst = max(outer(value(x, one_hot(1), abp), form), outer(value(y, one_hot(3), abp), form))
    m = -math.log(1 + a - b) + math.log(1 + a)
    assert outer(value(x, y, abp), form) >= outer(2 * m, form) - 2 * worst - 1e-9


@given(u=distances, v=distances, form=forms)
@settings(deadline=None)
def test_every_outer_function_is_0_at_0_and_rises_and_is_subadditive_by_lemma_2(
    u: float, v: float, form: Form
) -> None:
    assert outer(0.0, form) == 0
    assert outer(u, form) <= outer(u + v, form) <= outer(u, form) + outer(v, form) + 1e-12
    middle = outer((u + v) / 2, form)
    assert middle >= (outer(u, form) + outer(v, form)) / 2 - 1e-12  # concave
    expected = {"identity": u, "power": u ** form[1], "log": math.log1p(form[2] * u) / form[2]}
    assert outer(u, form) == pytest.approx(expected[form[0]], rel=1e-12)


def test_a_parameter_of_another_outer_function_is_refused() -> None:
    for given_, message in (
        ({"power": 0.5}, "power is for outer: power; got 0.5 with identity. Leave it out."),
        ({"outer": "log", "power": 0.5}, "power is for outer: power; got 0.5 with log"),
        ({"outer": "power", "rate": 2.0}, "rate is for outer: log; got 2 with power"),
        ({"outer": "power", "power": 1.5}, "power must be above 0 and at most 1; got 1.5"),
        ({"outer": "log", "rate": 0.0}, "rate must be above 0 and at most 1e\\+06; got 0.0"),
        ({"outer": "sqrt"}, "outer must be one of identity, power, log; got 'sqrt'"),
    ):
        with pytest.raises(UserError, match=message):
            losses.load("metric_cross_entropy", num_classes=3, dim=2, **given_)


def test_a_perfect_sample_under_a_power_has_a_finite_gradient() -> None:
    for dtype in (torch.float32, torch.float64):
        total_B = torch.tensor([0.0, 1e-45, 1e-40, 1e-30, 2.0], dtype=dtype, requires_grad=True)
        result_B = concave(total_B, "power", 0.01)
        torch.autograd.backward(result_B.sum())
        assert result_B[0] == 0
        assert total_B.grad is not None
        assert total_B.grad.isfinite().all()


def test_the_weak_metric_is_none_between_three_arbitrary_points() -> None:
    low, middle, high = (torch.full((1, 1), t, dtype=torch.float64) for t in (0.1, 0.5, 0.9))
    weak = (0.0, 1.0, 1.0)
    assert value(low, high, weak) > value(low, middle, weak) + value(middle, high, weak)


def test_the_gradient_of_the_distance_is_finite_where_the_points_meet() -> None:
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([[0.0, 1.0, 0.25, 0.5]], dtype=dtype, requires_grad=True)
        y = torch.tensor([[0.0, 1.0, 0.25 + 1e-7, 0.4]], dtype=dtype)
        torch.autograd.backward(distance(x, y, 1.0, 1.0, 0.3).sum())
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert x.grad[0, :2].tolist() == [0, 0]
    points = torch.rand(2, 3, C, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: distance(p[0], p[1], 1.0, 1.2, 0.4), (points,))


def test_the_defaults_are_a_metric() -> None:
    losses.load("metric_cross_entropy", num_classes=3, dim=2)


def test_a_configuration_that_is_no_metric_is_refused_with_a_p_that_would_do() -> None:
    with pytest.raises(
        UserError, match=r"at least b/\(a\+1\) = 0\.5; got 0\.2\d+ at p 0\.9\. Use p: "
    ) as caught:
        losses.load("metric_cross_entropy", num_classes=3, dim=2, a=1, b=1, p=0.9)
    found = re.search(r"Use p: (\S+) or less", str(caught.value))
    assert found
    suggested = float(found[1])
    losses.load("metric_cross_entropy", num_classes=3, dim=2, a=1, b=1, p=suggested)
    assert not is_metric(1, 1, suggested + 2e-4)
    assert "metric: weak" in str(caught.value)
    losses.load("metric_cross_entropy", num_classes=3, dim=2, a=1, b=1, p=0.9, metric="weak")
    with pytest.raises(UserError, match="Use b below 1 and a smaller p"):
        losses.load("metric_cross_entropy", num_classes=3, dim=2, a=0, b=1, p=1)
    for metric in ("strict", "weak"):
        with pytest.raises(UserError, match=r"b must be at most a \+ 1; got 2.5 and a 1. Use b: 2 or less"):
            losses.load("metric_cross_entropy", num_classes=3, dim=2, a=1, b=2.5, p=0.1, metric=metric)
    with pytest.raises(UserError, match="metric must be one of strict, weak; got 'loose'"):
        losses.load("metric_cross_entropy", num_classes=3, dim=2, metric="loose")


@given(a=st.floats(0, 5), b=st.floats(0.01, 3), p=st.floats(0.01, 1))
@settings(deadline=None)
def test_the_requirement_in_the_docstring_is_the_condition(a: float, b: float, p: float) -> None:
    found = re.search(r"`require: (.+?)`", MetricCrossEntropy.__doc__ or "")
    assert found
    assume(b <= a + 1)
    holds = compile_expression(found[1]).holds({"loss.a": a, "loss.b": b, "loss.p": p})
    assert holds == is_metric(a, b, p)


def logits_loss(logits: Tensor, label: int, a: float, b: float, p: float) -> Tensor:
    """The loss of one sample whose similarities are these, at temperature 1."""
    loss = losses.load(
        "metric_cross_entropy", num_classes=2, dim=2, a=a, b=b, p=p, temperature=1.0, metric="weak"
    )
    result: Tensor = loss.value(logits.unsqueeze(0), torch.tensor([label]))
    return result


@pytest.mark.parametrize("abp", [(1.0, 1.0, 0.75), (0.5, 1.5, 0.5), (0.0, 1.0, 1.0), (0.0, 0.999999, 0.9)])
@pytest.mark.parametrize("gap", [0.0, 1.0, 5.0, 12.0])
def test_the_loss_is_the_distance_to_the_label_in_float32_too(
    abp: tuple[float, float, float], gap: float
) -> None:
    logits = torch.tensor([0.3, -0.2, 0.1, gap], dtype=torch.float64)
    for label in (0, 3):
        expected = value(logits.softmax(-1).unsqueeze(0), one_hot(label), abp)
        assert logits_loss(logits, label, *abp).item() == pytest.approx(expected, rel=1e-9)
        assert logits_loss(logits.float(), label, *abp).item() == pytest.approx(expected, rel=1e-5)


def test_a_hopeless_sample_of_the_weak_metric_keeps_its_pull() -> None:
    """Two classes, s apart: −log x_y − log(1 − x_other) = 2 log(1 + e^s), also where float32 has lost x_y."""
    for s in (20.0, 90.0, 500.0, 1e6):
        logits = torch.tensor([0.0, s], requires_grad=True)
        result = logits_loss(logits, 0, 0.0, 1.0, 1.0)
        torch.autograd.backward(result)
        assert result.item() == pytest.approx(2 * s, rel=1e-5)
        assert logits.grad is not None
        assert logits.grad.tolist() == pytest.approx([-2, 2], rel=1e-5)


def test_equal_logits_of_two_classes_have_a_gradient() -> None:
    """x = ½ is where the two ways to compute the loss meet."""
    for dtype in (torch.float32, torch.float64):
        logits = torch.zeros(2, dtype=dtype, requires_grad=True)
        torch.autograd.backward(logits_loss(logits, 0, 1.0, 1.0, 0.75))
        t = 0.5**0.75
        expected = 2 * 0.5 * t * 0.75 / (1 - 0.5 * t) * 0.5
        assert logits.grad is not None
        assert logits.grad.tolist() == pytest.approx([-expected, expected], rel=1e-5)


def test_one_class_has_nothing_to_lose() -> None:
    logits = torch.tensor([0.7], requires_grad=True)
    result = logits_loss(logits, 0, 1.0, 1.0, 0.75)
    torch.autograd.backward(result)
    assert result.item() == 0
    assert logits.grad is not None
    assert logits.grad.tolist() == [0]
