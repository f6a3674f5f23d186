"""The loop with parts of the methods: milestones, prototypes, zero-shot loss, generated features."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from dmltune.core.fit import Schedule, fit


def test_learning_rates_fall_at_their_milestones_and_a_resumed_run_knows_them(toy: ModuleType) -> None:
    schedule = Schedule(max_steps=6, validate_every=2, milestones=(2, 5), decay=0.1)
    whole = toy.run(schedule=schedule, lr=0.5)
    rates = []
    for _ in fit(whole):
        rates.append([group["lr"] for group in whole.optimizer.param_groups])
        if whole.step == 4:
            half = toy.run(schedule=schedule, lr=0.5)
            half.restore(*whole.state())
    first = [group[0] for group in rates]
    assert first == pytest.approx([0.5, 0.5, 0.05, 0.005])  # after steps 0, 2, 4 and 6
    assert [group[1] / group[0] for group in rates] == pytest.approx([2.0] * 4), (
        "new layers keep their factor"
    )
    list(fit(half))
    for name, value in whole.state()[0].items():
        assert torch.equal(half.state()[0][name], value), name


def test_prototypes_start_among_averages_of_training_images(toy: ModuleType) -> None:
    run = toy.run(parts={"pooling": ("gsp", {"prototypes": 3})})
    next(iter(fit(run)))
    embedder = run.objective.embedder.eval()
    images = torch.cat([images for images, _, _ in toy.ToyFeed().pool(3, 0)])  # 4 · 3 points of 5 classes
    with torch.no_grad():
        averages_ND = embedder.map(images).mean((2, 3))
        gaps_MN = torch.cdist(embedder.pooling.prototypes, averages_ND)
    assert gaps_MN.amin(1).max() < 1e-5
    assert len(set(gaps_MN.argmin(1).tolist())) == 3


def test_the_zero_shot_loss_is_mixed_in_and_reaches_prototypes_and_labels(toy: ModuleType) -> None:
    goal = toy.objective(
        dtype=torch.float64, parts={"pooling": ("gsp", {"prototypes": 4}), "zero_shot": ("", {})}
    )
    images, labels = toy.ToyFeed().batch(0)
    mixed = goal(images, labels)
    weight, goal.zero_shot.weight = goal.zero_shot.weight, 0.0
    plain = goal(images, labels)
    goal.zero_shot.weight = 1.0
    only = goal(images, labels)
    torch.testing.assert_close(mixed, (1 - weight) * plain + weight * only)
    torch.autograd.backward(only)
    assert goal.zero_shot.class_embeddings.grad.abs().sum() > 0
    assert goal.embedder.pooling.prototypes.grad.abs().sum() > 0


def test_generated_features_join_with_their_weight_in_training_only(toy: ModuleType) -> None:
    goal = toy.objective(dtype=torch.float64, parts={"transform": ("sft", {"weight": 0.5})})
    plain = toy.objective(dtype=torch.float64)
    goal.train()
    plain.train()
    for step in range(3):
        images, labels = toy.ToyFeed().batch(step)
        with_generated, without = goal(images, labels).detach(), plain(images, labels).detach()
        assert bool(with_generated > without) is (step > 0), "the first batch only makes the centres"
    draws = int(goal.transform.draws)
    assert torch.equal(goal.eval()(images, labels), plain.eval()(images, labels))
    assert int(goal.transform.draws) == draws
