"""The contract of every pooling. They and their oracles (oracles/poolings/NAME.py) are found by file name.

An oracle file has EXAMPLES (parameters) and, in plain Python on nested lists (B, D, H, W),
`oracle(features, weights, **example) -> list[list[float]]` (`weights`: the state dict by name). It may say
POSITIONS_MATTER = True (moving positions around changes the result), STARTS_AS_AVERAGE = True (a new one is
average pooling up to scale) and LARGEST, the size up to which features have finite float32 gradients.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dmltune.core import components, poolings
from dmltune.core.poolings import Pooling
from dmltune.errors import UserError

ORACLES = Path(__file__).parent / "oracles" / "poolings"
CHANNELS = 8
MAPS = [(1, 1), (1, 3), (3, 2), (4, 4)]
SCALES = [0.0, 1e-30, 1.0, 1e6, 1e15, 1e30]


def oracle_of(name: str) -> Any:
    path = ORACLES / f"{name}.py"
    assert path.exists(), (
        f"{name} has no oracle; write tests/core/oracles/poolings/{name}.py (EXAMPLES, oracle)"
    )
    spec = importlib.util.spec_from_file_location(f"oracle_of_pooling_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(
    name: str,
    example: dict[str, Any],
    dtype: torch.dtype = torch.float64,
    started: bool = False,
    new: bool = False,
) -> Pooling:
    """A pooling whose parameters are anything but their initial values, unless `new`."""
    torch.manual_seed(3)
    pooling = poolings.load(name, channels=CHANNELS, **example).to(dtype)
    if started:
        pooling.start(torch.randn(pooling.start_points, pooling.in_channels or CHANNELS, dtype=dtype))
    with torch.no_grad():
        for parameter in [] if new else pooling.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return pooling


def maps(
    pooling: Pooling,
    size: tuple[int, int] = (3, 2),
    seed: int = 0,
    count: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (count, pooling.in_channels or CHANNELS, *size)
    return torch.randn(shape, generator=generator, dtype=dtype)


NAMES = components.names("poolings")
KNOWN = {name: oracle_of(name) for name in NAMES if (ORACLES / f"{name}.py").exists()}
CASES = [
    pytest.param(name, example, started, id=f"{name}-{i}-{'started' if started else 'fresh'}")
    for name, module in KNOWN.items()
    for i, example in enumerate(module.EXAMPLES)
    for started in ((False, True) if make(name, example).start_points else (False,))
]
ORDERED = [name for name, module in KNOWN.items() if getattr(module, "POSITIONS_MATTER", False)]
AVERAGES = [name for name, module in KNOWN.items() if getattr(module, "STARTS_AS_AVERAGE", False)]
# the printed passes of gsp have the gradient of the solution they approach
EXACT = [case for case in CASES if not (case.values[0] == "gsp" and case.values[1].get("iterations"))]


def with_backward(pooling: Pooling, features_BDHW: Tensor) -> list[Tensor]:
    """The gradients to the features and the parameters, of a random direction of the result."""
    features_BDHW.requires_grad_()
    pooled_BD = pooling(features_BDHW)
    assert pooled_BD.isfinite().all()
    direction_BD = torch.randn(pooled_BD.shape, generator=torch.Generator().manual_seed(1)).to(pooled_BD)
    torch.autograd.backward((pooled_BD * direction_BD).sum())
    return [t.grad for t in (features_BDHW, *pooling.parameters()) if t.grad is not None]


@pytest.mark.parametrize("name", NAMES)
def test_every_pooling_has_an_oracle_with_examples(name: str) -> None:
    assert oracle_of(name).EXAMPLES


@pytest.mark.parametrize("name", NAMES)
def test_every_tunable_parameter_has_a_default_and_every_number_a_range(name: str) -> None:
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)  # of nn.Module, where none are
    for parameter in components.parameters(components.find("poolings", name)).values():
        if parameter.kind in loose:
            continue
        assert parameter.default is not parameter.empty
        if isinstance(parameter.default, float) or type(parameter.default) is int:
            limits = components.range_of(parameter)
            assert limits is not None
            assert components.contains(limits, parameter.default)


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_it_equals_its_oracle(name: str, example: dict[str, Any], started: bool) -> None:
    pooling = make(name, example, started=started)
    weights = {key: value.tolist() for key, value in pooling.state_dict().items()}
    for size, seed in itertools.product(MAPS, range(3)):
        features_BDHW = maps(pooling, size, seed)
        expected = torch.tensor(
            KNOWN[name].oracle(features_BDHW.tolist(), weights, **example), dtype=torch.float64
        )
        pooled_BD = pooling(features_BDHW)
        assert pooled_BD.shape == (3, CHANNELS)
        torch.testing.assert_close(pooled_BD, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "example", "started"), EXACT)
def test_its_gradient_is_that_of_finite_differences(
    name: str, example: dict[str, Any], started: bool
) -> None:
    pooling = make(name, example, started=started)
    weights = tuple(pooling.parameters())  # moved in place by gradcheck, so the pooling sees each change
    for size in ((1, 1), (2, 3)):
        features_BDHW = maps(pooling, size, seed=2, count=2).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, *_: pooling(x), (features_BDHW, *weights))


@pytest.mark.parametrize(("name", "example", "started"), CASES)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(4)))
@settings(max_examples=8, deadline=None)
def test_an_image_is_pooled_alone_whatever_else_is_in_the_batch(
    name: str, example: dict[str, Any], started: bool, seed: int, order: list[int]
) -> None:
    pooling = make(name, example, started=started)
    features_BDHW = maps(pooling, seed=seed, count=4)
    pooled_BD = pooling.train()(features_BDHW)
    torch.testing.assert_close(pooling(features_BDHW[order]), pooled_BD[order])
    torch.testing.assert_close(pooling(features_BDHW[:1]), pooled_BD[:1])
    torch.testing.assert_close(pooling.eval()(features_BDHW), pooled_BD)


@pytest.mark.parametrize(
    ("name", "example", "started"), [case for case in CASES if case.values[0] not in ORDERED]
)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(6)))
@settings(max_examples=8, deadline=None)
def test_moving_positions_around_changes_nothing(
    name: str, example: dict[str, Any], started: bool, seed: int, order: list[int]
) -> None:
    pooling = make(name, example, started=started)
    features_BDHW = maps(pooling, seed=seed)
    moved_BDHW = features_BDHW.flatten(2)[:, :, order].unflatten(2, (3, 2))
    torch.testing.assert_close(pooling(moved_BDHW), pooling(features_BDHW))


@pytest.mark.parametrize("name", ORDERED)
def test_where_positions_matter_moving_them_changes_the_result(name: str) -> None:
    pooling = make(name, KNOWN[name].EXAMPLES[0])
    features_BDHW = maps(pooling, (4, 4))
    moved_BDHW = features_BDHW.flatten(2)[:, :, torch.randperm(16)].unflatten(2, (4, 4))
    assert (pooling(moved_BDHW) - pooling(features_BDHW)).abs().max() > 1e-3


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_float32_gradients_are_finite_for_any_size_of_features(
    name: str, example: dict[str, Any], started: bool
) -> None:
    pooling = make(name, example, torch.float32, started)
    different_BDHW = maps(pooling, dtype=torch.float32)
    equal_BDHW = different_BDHW[:1, :, :1, :1].expand_as(different_BDHW)
    largest = getattr(KNOWN[name], "LARGEST", SCALES[-1])
    for scale in (scale for scale in SCALES if scale <= largest):
        for features_BDHW in (different_BDHW, equal_BDHW):
            pooling.zero_grad()
            gradients = with_backward(pooling, (features_BDHW * scale).clone())
            assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_the_gradient_reaches_the_features_and_every_parameter(
    name: str, example: dict[str, Any], started: bool
) -> None:
    pooling = make(name, example, started=started)
    features_BDHW = maps(pooling, count=8)
    gradients = with_backward(pooling, features_BDHW)
    assert len(gradients) == 1 + len(list(pooling.parameters()))  # DistributedDataParallel waits for all
    average_BD = features_BDHW.mean((2, 3))
    is_average = pooling.in_channels is None and torch.allclose(pooling(features_BDHW), average_BD)
    # prototypes of gsp do nothing yet before its start, and nothing at μ = 1
    if not is_average and (started or not pooling.start_points):
        assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert gradients[0].flatten(1).abs().sum(1).all()


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_it_computes_in_the_dtype_it_is_given_or_raises_half_types(
    name: str, example: dict[str, Any], started: bool
) -> None:
    exact, rough = make(name, example, started=started), make(name, example, torch.float32, started)
    rough.load_state_dict(exact.state_dict())
    assert exact(maps(exact)).dtype == torch.float64
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)):
        features_BDHW = maps(exact).to(dtype)
        pooled_BD = rough(features_BDHW)
        assert pooled_BD.dtype in (dtype, torch.float32)
        torch.testing.assert_close(
            pooled_BD.double(), exact(features_BDHW.double()), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_a_map_that_lies_channels_last_gives_the_same(
    name: str, example: dict[str, Any], started: bool
) -> None:
    pooling = make(name, example, started=started)
    features_BDHW = maps(pooling, (4, 4))
    other_BDHW = features_BDHW.detach().clone(memory_format=torch.channels_last)
    gradients = []
    for features in (features_BDHW, other_BDHW):
        pooling.zero_grad()
        gradients.append([gradient.clone() for gradient in with_backward(pooling, features)])
    torch.testing.assert_close(pooling(other_BDHW), pooling(features_BDHW))
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_its_state_survives_a_round_trip(name: str, example: dict[str, Any], started: bool) -> None:
    pooling, other = make(name, example, started=started), make(name, example)
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.load_state_dict(pooling.state_dict())
    features_BDHW = maps(pooling)
    assert torch.equal(other(features_BDHW), pooling(features_BDHW))


@pytest.mark.parametrize(("name", "example", "started"), CASES)
def test_a_pooling_with_attributes_gives_them_with_the_same_points(
    name: str, example: dict[str, Any], started: bool
) -> None:
    pooling = make(name, example, started=started)
    features_BDHW = maps(pooling)
    if not pooling.attributes:
        with pytest.raises(NotImplementedError):
            pooling.with_attributes(features_BDHW)
        return
    pooled_BD, attributes_BM = pooling.with_attributes(features_BDHW)
    torch.testing.assert_close(pooled_BD, pooling(features_BDHW))
    assert attributes_BM.shape == (3, pooling.attributes)


@pytest.mark.parametrize("name", AVERAGES)
def test_a_new_one_is_average_pooling_up_to_scale(name: str) -> None:
    pooling = make(name, KNOWN[name].EXAMPLES[0], new=True)
    features_BDHW = maps(pooling)
    direction_BD = nn.functional.normalize(features_BDHW.mean((2, 3)))
    torch.testing.assert_close(nn.functional.normalize(pooling(features_BDHW)), direction_BD)


@pytest.mark.parametrize(("name", "example", "started"), [case for case in CASES if case.values[2]])
def test_starting_is_repeatable_and_takes_any_number_of_points(
    name: str, example: dict[str, Any], started: bool
) -> None:
    for count in (1, 2, 50):
        first, second = make(name, example, new=True), make(name, example, new=True)
        points_ND = torch.randn(count, first.in_channels or CHANNELS, dtype=torch.float64)
        before = [parameter.clone() for parameter in first.parameters()]
        first.start(points_ND)
        second.start(points_ND)
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
        assert not all(torch.equal(a, b) for a, b in zip(first.parameters(), before, strict=True))
        assert first(maps(first)).isfinite().all()


@pytest.mark.parametrize("name", ["netvlad", "otp"])
def test_parts_side_by_side_need_channels_that_divide(name: str) -> None:
    assert poolings.load(name, channels=128).in_channels == 16  # the thesis' 8 × 16
    with pytest.raises(UserError, match=r"multiple of clusters.*got 30 and 8\. Use 24 or 32 dimensions"):
        poolings.load(name, channels=30)
    with pytest.raises(UserError, match=r"got 4 and 8\. Use 8 dimensions"):
        poolings.load(name, channels=4)
