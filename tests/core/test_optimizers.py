"""What is done to gradients: clipping, and the backbone's rest while new layers warm up."""

from __future__ import annotations

import math
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import optimizers
from dmltune.core.fit import Options, Schedule, fit
from dmltune.core.optimizers import clip_gradients
from dmltune.errors import UserError

SCHEDULE = Schedule(max_steps=6, validate_every=6)


def embedder_weights(run: Any) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in run.objective.embedder.named_parameters()}


def watched(run: Any) -> list[dict[str, Tensor]]:
    """The embedder's weights before each step, in the course of a training."""
    seen: list[dict[str, Tensor]] = []

    def look() -> bool:
        seen.append(embedder_weights(run))
        return False

    list(fit(run, look))
    return seen


@pytest.mark.parametrize("kind", ["batch", "ccp"])
def test_the_whole_gradient_is_made_no_longer_than_the_norm(toy: ModuleType, kind: str) -> None:
    norm, lr = 0.02, 0.1
    settings: dict[str, Any] = {"optimizer": "sgd", "lr": lr, "dtype": torch.float64, "schedule": SCHEDULE}
    run, by_hand = toy.run(kind, options=Options(clip_norm=norm), **settings), toy.run(kind, **settings)
    start = iter(fit(run))
    next(start)
    by_hand.restore(*run.state())  # the proxies that were chosen before the first step
    lengths = []
    for step in range(SCHEDULE.max_steps):
        by_hand.objective.train()
        loss = by_hand.objective(*by_hand.feed.batch(step))
        by_hand.optimizer.zero_grad()
        torch.autograd.backward(loss)
        weights = [p for group in by_hand.optimizer.param_groups for p in group["params"]]
        length = math.sqrt(sum(float(value) ** 2 for p in weights for value in p.grad.flatten()))
        for p in weights:
            p.grad *= min(1.0, norm / (length + 1e-6))  # torch adds the small number
        by_hand.optimizer.step()
        lengths.append(length)
    list(start)
    assert max(lengths) > 2 * norm
    live = {name: value for name, value in run.state()[0].items() if name.startswith("model.embedder.")}
    for name, value in by_hand.objective.embedder.state_dict().items():
        torch.testing.assert_close(live[f"model.embedder.{name}"], value, rtol=1e-9, atol=1e-12)


def test_a_gradient_that_is_short_enough_is_left_alone(toy: ModuleType) -> None:
    plain, clipped = toy.run(schedule=SCHEDULE), toy.run(schedule=SCHEDULE, options=Options(clip_norm=1e6))
    list(fit(plain))
    list(fit(clipped))
    expected = plain.state()[0]
    assert all(torch.equal(value, expected[name]) for name, value in clipped.state()[0].items())


def test_a_direction_survives_the_clipping(toy: ModuleType) -> None:
    run = toy.run()
    torch.autograd.backward(run.objective.train()(*run.feed.batch(0)))
    weights = [p for group in run.optimizer.param_groups for p in group["params"]]
    before = torch.cat([p.grad.flatten() for p in weights])
    clip_gradients(run.optimizer, 1e-3)
    after = torch.cat([p.grad.flatten() for p in weights])
    torch.testing.assert_close(after.norm(), torch.tensor(1e-3), rtol=1e-2, atol=0)
    torch.testing.assert_close(after / after.norm(), before / before.norm())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_only_what_is_new_learns_during_the_warm_up(toy: ModuleType, optimizer: str) -> None:
    parts: dict[str, Any] = {"pooling": ("gsp", {"prototypes": 3}), "zero_shot": ("", {})}
    small = {"proxies": 2, "pool_size": 3}
    options = Options(warmup_new_layers=3)
    run = toy.run("ccp", SCHEDULE, optimizer=optimizer, parts=parts, options=options, **small)
    proxies, embeddings = run.objective.references.proxies, run.objective.zero_shot.class_embeddings
    seen = watched(run)
    assert len(seen) == 6
    resting = [name for name in seen[0] if name.startswith("backbone.")]
    learning = [name for name in seen[0] if name not in resting]
    assert {"projection.weight", "pooling.prototypes"} <= set(learning)
    for before, after in pairwise(seen[:4]):
        assert all(torch.equal(before[name], after[name]) for name in resting)
        assert not any(torch.equal(before[name], after[name]) for name in learning)
    assert not any(torch.equal(seen[3][name], seen[4][name]) for name in resting)
    steps = {int(state["step"]) for state in run.optimizer.state.values() if "step" in state}
    if optimizer != "sgd":
        assert steps == {3, 6}, "the backbone's moments begin when it does"
    for weight in (proxies, embeddings):
        assert run.optimizer.state[weight]


def test_the_first_step_after_the_warm_up_knows_no_momentum_of_it(toy: ModuleType) -> None:
    lr = 0.05
    settings: dict[str, Any] = {"optimizer": "sgd", "lr": lr, "dtype": torch.float64, "schedule": SCHEDULE}
    run = toy.run(options=Options(warmup_new_layers=5), **settings)
    before = watched(run)[-1]
    name, weight = next(iter(run.objective.embedder.backbone.named_parameters()))
    moved = run.state()[0][f"model.embedder.backbone.{name}"] - before[f"backbone.{name}"]
    torch.testing.assert_close(moved, -lr * run.optimizer.state[weight]["momentum_buffer"])
    assert moved.abs().max() > 0


@pytest.mark.parametrize("frozen", [False, True])
def test_statistics_go_on_during_the_warm_up_unless_they_are_frozen(toy: ModuleType, frozen: bool) -> None:
    run = toy.run(schedule=Schedule(2, 2), options=Options(warmup_new_layers=2))
    run.objective.embedder.frozen_bn = frozen
    before = run.objective.embedder.backbone.bn1.running_mean.clone()
    list(fit(run))
    moved = run.state()[0]["model.embedder.backbone.bn1.running_mean"] - before
    assert bool(moved.abs().max() > 0) is not frozen


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clip_norm": 0.0}, "clip_norm must be above 0, or none; got 0.0"),
        ({"warmup_new_layers": -1}, "warmup_new_layers must be at least 0; got -1"),
        ({"ema": 1.0}, "ema must be at least 0 and below 1; got 1.0"),
        ({"precision": "bfloat"}, "no precision 'bfloat'; there are .*did you mean 'bfloat16'"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Options(**options)


@pytest.mark.parametrize(
    ("name", "reference"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)],
)
def test_without_the_compiler_s_marks_the_steps_are_those_of_torch(
    name: str, reference: type[torch.optim.Optimizer]
) -> None:
    ours, theirs = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5))
    options = {"lr": 0.1, "weight_decay": 0.01}
    pairs = [
        (ours, optimizers.build(name, [{"params": [ours], **options}])),
        (theirs, reference([{"params": [theirs], **options}], fused=True)),
    ]
    for step in range(4):
        for weight, optimizer in pairs:
            weight.grad = torch.arange(5.0) - step
            optimizer.step()
            assert torch.is_grad_enabled()
    assert torch.equal(ours, theirs)
