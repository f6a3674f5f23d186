"""The contract of every transform. Transforms and their oracles (oracles/transforms/NAME.py) are found by
file name.

An oracle file has EXAMPLES (parameters) and, in plain Python on nested lists,
`oracle(batches, chosen, state, class_counts, **example)`: the points generated from the last of the batches
(raw, emb, labels) after the others were taken up, given the labels that were drawn and the buffers by name.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import components, transforms
from dmltune.core.geometry import l2_normalise
from dmltune.core.transforms import Transform

ORACLES = Path(__file__).parent / "oracles" / "transforms"
CLASSES, DIM, ENOUGH = 5, 4, 13
COUNTS = torch.tensor([30, 3, 20, 4, 15])


def oracle_of(name: str) -> Any:
    path = ORACLES / f"{name}.py"
    assert path.exists(), (
        f"{name} has no oracle; write tests/core/oracles/transforms/{name}.py (EXAMPLES, oracle)"
    )
    spec = importlib.util.spec_from_file_location(f"oracle_of_{name}_transform", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = components.names("transforms")
CASES = [
    pytest.param(name, example, id="-".join([name, *map(str, example.values())]))
    for name in NAMES
    if (ORACLES / f"{name}.py").exists()
    for example in oracle_of(name).EXAMPLES
]
GENERATING = [case for case in CASES if case.values[0] != "identity"]

Batch = tuple[Tensor, Tensor, Tensor]


def make(name: str, example: dict[str, Any], dtype: torch.dtype = torch.float64, seed: int = 3) -> Transform:
    torch.manual_seed(seed)
    transform = transforms.load(name, CLASSES, DIM, COUNTS, **example).to(dtype)
    assert isinstance(transform, Transform)
    return transform


def batch(seed: int, size: int = 9, dtype: torch.dtype = torch.float64) -> Batch:
    """Class c lies about the c-th of fixed directions."""
    directions_CD = torch.randn(
        CLASSES, DIM, generator=torch.Generator().manual_seed(99), dtype=torch.float64
    )
    generator = torch.Generator().manual_seed(seed)
    labels_B = torch.randint(CLASSES, (size,), generator=generator)
    noise_BD = torch.randn(size, DIM, generator=generator, dtype=torch.float64)
    raw_BD = (2 * directions_CD[labels_B] + noise_BD).to(dtype)
    return raw_BD, l2_normalise(raw_BD), labels_B


def take_up(transform: Transform, batches: list[Batch]) -> list[tuple[Tensor, Tensor]]:
    made = []
    for raw_BD, emb_BD, labels_B in batches:
        made.append(transform.generate(raw_BD, emb_BD, labels_B))
        transform.update_(raw_BD, emb_BD, labels_B)
    return made


def warm(name: str, example: dict[str, Any], dtype: torch.dtype = torch.float64) -> Transform:
    transform = make(name, example, dtype)
    take_up(transform, [batch(seed, dtype=dtype) for seed in range(ENOUGH)])
    return transform


@pytest.mark.parametrize("name", NAMES)
def test_every_transform_has_an_oracle_with_examples(name: str) -> None:
    assert oracle_of(name).EXAMPLES


@pytest.mark.parametrize("name", NAMES)
def test_every_tunable_parameter_has_a_default_and_every_number_a_range(name: str) -> None:
    for parameter in components.parameters(components.find("transforms", name)).values():
        assert parameter.default is not parameter.empty
        if isinstance(parameter.default, float) or type(parameter.default) is int:
            limits = components.range_of(parameter)
            assert limits is not None
            assert components.contains(limits, parameter.default)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_it_equals_its_oracle_after_any_number_of_batches(name: str, example: dict[str, Any]) -> None:
    for seed, number in itertools.product(range(3), range(ENOUGH)):
        if number == 0:
            transform = make(name, example)
            batches = [batch(100 * seed + i) for i in range(ENOUGH)]
        raw_BD, emb_BD, labels_B = batches[number]
        state = {key: value.tolist() for key, value in transform.state_dict().items()}
        generated_GD, labels_G = transform.generate(raw_BD, emb_BD, labels_B)
        lists = [tuple(part.tolist() for part in one) for one in batches[: number + 1]]
        expected = oracle_of(name).oracle(lists, labels_G.tolist(), state, COUNTS.tolist(), **example)
        assert generated_GD.shape == (len(labels_G), DIM)
        assert labels_G.dtype == torch.long
        expected_GD = torch.tensor(expected, dtype=torch.float64).view(-1, DIM)
        torch.testing.assert_close(generated_GD, expected_GD, rtol=1e-10, atol=1e-12)
        transform.update_(raw_BD, emb_BD, labels_B)


@pytest.mark.parametrize(("name", "example"), GENERATING)
def test_generated_points_are_normalised_and_there_are_some(name: str, example: dict[str, Any]) -> None:
    generated_GD, _ = warm(name, example).generate(*batch(50))
    assert len(generated_GD) > 0
    torch.testing.assert_close(generated_GD.norm(dim=1), torch.ones(len(generated_GD), dtype=torch.float64))


@pytest.mark.parametrize(("name", "example"), GENERATING)
def test_the_gradient_to_the_batch_is_that_of_finite_differences(name: str, example: dict[str, Any]) -> None:
    transform = warm(name, example)
    raw_BD, _, labels_B = batch(51, size=5)

    def generated(raw_BD: Tensor) -> Tensor:
        return copy.deepcopy(transform).generate(raw_BD, l2_normalise(raw_BD), labels_B)[0]

    assert len(generated(raw_BD)) > 0
    assert torch.autograd.gradcheck(generated, (raw_BD.requires_grad_(),))


@pytest.mark.parametrize(("name", "example"), GENERATING)
def test_the_backward_after_the_update_is_that_before_it(name: str, example: dict[str, Any]) -> None:
    transform = warm(name, example)
    for seed in range(60, 72):  # among them an update that chooses FTL's subspace anew
        gradients = []
        for module, updates in ((copy.deepcopy(transform), False), (transform, True)):
            raw_BD, _, labels_B = batch(seed)
            emb_BD = l2_normalise(raw_BD.requires_grad_())
            generated_GD, _ = module.generate(raw_BD, emb_BD, labels_B)
            if updates:
                module.update_(raw_BD, emb_BD, labels_B)
            torch.autograd.backward((generated_GD[:, 0] ** 2).sum())
            gradients.append(raw_BD.grad)
        assert torch.equal(gradients[0], gradients[1])
    assert not any(buffer.requires_grad for buffer in transform.buffers())
    assert not list(transform.parameters())


@pytest.mark.parametrize(("name", "example"), CASES)
def test_the_batch_and_the_global_generator_are_left_alone(name: str, example: dict[str, Any]) -> None:
    transform, (raw_BD, emb_BD, labels_B) = warm(name, example), batch(52)
    copies, state = [part.clone() for part in (raw_BD, emb_BD, labels_B)], torch.get_rng_state()
    take_up(transform, [(raw_BD, emb_BD, labels_B)])
    assert all(torch.equal(part, kept) for part, kept in zip((raw_BD, emb_BD, labels_B), copies, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("name", "example"), CASES)
def test_two_ranks_and_a_resumed_run_agree_bit_for_bit(name: str, example: dict[str, Any]) -> None:
    one, other = make(name, example), make(name, example)
    batches = [batch(seed) for seed in range(2 * ENOUGH)]
    made = take_up(one, batches[:ENOUGH])
    torch.randn(7)
    for (points, labels), (same_points, same_labels) in zip(
        made, take_up(other, batches[:ENOUGH]), strict=True
    ):
        assert torch.equal(points, same_points)
        assert torch.equal(labels, same_labels)
    resumed = make(name, example, seed=4)
    resumed.load_state_dict(one.state_dict())
    assert resumed.state_dict().keys() == one.state_dict().keys()
    for (points, labels), (same_points, same_labels) in zip(
        take_up(one, batches[ENOUGH:]), take_up(resumed, batches[ENOUGH:]), strict=True
    ):
        assert torch.equal(points, same_points)
        assert torch.equal(labels, same_labels)
    for key, value in one.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value)


@pytest.mark.parametrize(("name", "example"), GENERATING)
def test_another_seed_draws_other_labels(name: str, example: dict[str, Any]) -> None:
    drawn = [
        [labels.tolist() for _, labels in take_up(make(name, example, seed=s), [batch(i) for i in range(20)])]
        for s in (3, 4)
    ]
    if example.get("tail_below") != 4:  # there the tail is one class
        assert drawn[0] != drawn[1]
    else:
        assert drawn[0] == drawn[1]


@pytest.mark.parametrize(("name", "example"), CASES)
def test_odd_batches_give_finite_points_and_state(name: str, example: dict[str, Any]) -> None:
    nothing, no_positives, one_class, lone_class, lone_sample = [], range(5), [2] * 5, [1, 1, 1, 1, 3], [4]
    transforms = (make(name, example, torch.float32), warm(name, example, torch.float32))
    for transform, labels in itertools.product(
        transforms, (nothing, no_positives, one_class, lone_class, lone_sample)
    ):
        transform = copy.deepcopy(transform)
        raw_BD = torch.randn(len(labels), DIM)
        made = take_up(
            transform, [(raw_BD, l2_normalise(raw_BD), torch.tensor(labels, dtype=torch.long))] * 2
        )
        assert all(points.isfinite().all() and len(points) <= len(labels) for points, _ in made)
        assert all(buffer.isfinite().all() for buffer in transform.buffers())


@pytest.mark.parametrize(("name", "example"), CASES)
def test_float32_gradients_and_state_are_finite_for_any_size_of_input(
    name: str, example: dict[str, Any]
) -> None:
    scales = (0.0, 1e-30, 1e-18, 1.0, 1e6, 1e18, 1e30)
    transforms = (make(name, example, torch.float32), warm(name, example, torch.float32))
    for transform, scale in itertools.product(transforms, scales):
        transform = copy.deepcopy(transform)
        for seed in range(3):
            raw_BD, _, labels_B = batch(seed, dtype=torch.float32)
            raw_BD = (raw_BD * scale).requires_grad_()
            emb_BD = l2_normalise(raw_BD)
            generated_GD, _ = transform.generate(raw_BD, emb_BD, labels_B)
            transform.update_(raw_BD, emb_BD, labels_B)
            torch.autograd.backward((generated_GD**2)[:, 0].sum() + 0 * emb_BD.sum())
            assert generated_GD.isfinite().all()
            assert raw_BD.grad is not None
            assert raw_BD.grad.isfinite().all()
        assert all(buffer.isfinite().all() for buffer in transform.buffers())


@pytest.mark.parametrize(("name", "example"), GENERATING)
def test_it_computes_in_the_dtype_it_is_given_and_raises_half_types(
    name: str, example: dict[str, Any]
) -> None:
    raw_BD, emb_BD, labels_B = batch(53)
    exact_GD, _ = warm(name, example).generate(raw_BD, emb_BD, labels_B)
    assert exact_GD.dtype == torch.float64
    for half in (torch.bfloat16, torch.float16):
        transform = make(name, example, torch.float32)
        transform.load_state_dict(warm(name, example).state_dict())
        rough_GD, _ = transform.generate(raw_BD.to(half), emb_BD.to(half), labels_B)
        assert rough_GD.dtype == torch.float32
        torch.testing.assert_close(rough_GD.double(), exact_GD, rtol=0.05, atol=0.03)
        transform.update_(raw_BD.to(half), emb_BD.to(half), labels_B)
