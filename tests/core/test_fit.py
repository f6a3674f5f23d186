"""The loop: cadence, stopping, resuming bit for bit, divergence."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.fit import Diverged, Options, Progress, Run, Schedule, fit
from dmltune.errors import UserError

TIMES = ("seconds", "images_per_s")


def figures(progress: Progress) -> dict[str, Any]:
    return {name: value for name, value in progress.metrics.items() if name not in TIMES}


def assert_same_state(one: Run, other: Run) -> None:
    (tensors, meta), (expected, expected_meta) = one.state(), other.state()
    assert tensors.keys() == expected.keys()
    for name, value in tensors.items():
        assert torch.equal(value, expected[name]), name
    for name in expected_meta:
        if name not in ("seconds", "interval_seconds", "metrics"):
            assert meta[name] == expected_meta[name], name


def test_it_validates_first_then_every_few_steps_and_at_the_last_one(toy: ModuleType) -> None:
    run = toy.run("ccp", Schedule(max_steps=10, validate_every=4))
    seen = list(fit(run))
    assert [progress.step for progress in seen] == [0, 4, 8, 10]
    assert [progress.finished for progress in seen] == [False, False, False, True]
    assert seen[-1].reason == "max_steps"
    assert set(seen[0].metrics) == {
        *("map_at_r", "precision_at_1", "covering_radius", "seconds", "projection", "steps_in_projection")
    }
    assert set(seen[1].metrics) == {*seen[0].metrics, "loss", "images_per_s"}
    assert seen[2].metrics["steps_in_projection"] == 8
    assert seen[1].score == seen[1].metrics["map_at_r"]


def test_training_improves_the_score_on_classes_it_never_saw(toy: ModuleType) -> None:
    seen = list(fit(toy.run("batch", Schedule(max_steps=60, validate_every=20))))
    assert seen[-1].best_score > seen[0].score + 0.05


def test_the_loss_reported_is_the_mean_since_the_last_validation(toy: ModuleType) -> None:
    schedule = Schedule(max_steps=6, validate_every=3)
    run, other = (toy.run("batch", schedule, dtype=torch.float64) for _ in range(2))
    by_hand: list[float] = []
    for step in range(6):
        other.objective.train()
        loss = other.objective(*other.feed.batch(step))
        other.optimizer.zero_grad()
        torch.autograd.backward(loss)
        other.optimizer.step()
        by_hand.append(loss.item())
    seen = [progress.metrics.get("loss") for progress in fit(run)]
    assert seen[1:] == pytest.approx([sum(by_hand[:3]) / 3, sum(by_hand[3:]) / 3], rel=1e-12)


def test_references_get_scores_of_which_higher_ones_are_better(
    toy: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for metric, mode, sign in (("map_at_r", "max", 1), ("covering_radius", "min", -1)):
        run = toy.run("batch", Schedule(6, validate_every=2, metric=metric, mode=mode))
        given: list[float] = []
        monkeypatch.setattr(
            run.objective.references,
            "after_validation",
            lambda score, weights_W, pool, given=given: given.append(score) or {},
        )
        scores = [progress.metrics[metric] for progress in fit(run) if progress.step > 0]
        assert given == [sign * score for score in scores]


@pytest.mark.parametrize("mode", ["max", "min"])
def test_patience_ends_it_and_the_best_weights_come_back(toy: ModuleType, mode: Any) -> None:
    metric = "map_at_r" if mode == "max" else "covering_radius"
    run = toy.run("batch", Schedule(200, validate_every=2, patience=3, metric=metric, mode=mode), lr=0.3)
    best: dict[str, Tensor] = {}
    scores, finished_at = [], None
    for progress in fit(run):
        scores.append(progress.score)
        if progress.improved and not progress.finished:
            best = {name: value.clone() for name, value in run.objective.embedder.state_dict().items()}
        finished_at = progress
    assert finished_at is not None
    assert finished_at.finished
    assert finished_at.reason == "patience"
    pick = max if mode == "max" else min
    assert finished_at.best_score == pick(scores)
    assert finished_at.best_step == 2 * scores.index(pick(scores)) == finished_at.step - 6
    for name, value in run.objective.embedder.state_dict().items():
        assert torch.equal(value, best[name]), name


@pytest.mark.parametrize("kind", ["batch", "ccp"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("finish_first", [False, True])
def test_forty_steps_are_twenty_saved_loaded_in_a_new_run_and_twenty_more_bit_for_bit(
    toy: ModuleType, tmp_path: Path, kind: str, optimizer: str, finish_first: bool
) -> None:
    parameters = {"patience": 1, "proxies": 2, "pool_size": 4} if kind == "ccp" else {}
    schedule = Schedule(max_steps=40, validate_every=4)
    settings: dict[str, Any] = {"optimizer": optimizer, "dropout": 0.3, **parameters}
    whole = toy.run(kind, schedule, **settings)
    expected = list(fit(whole))

    first = toy.run(kind, Schedule(20, validate_every=4) if finish_first else schedule, **settings)
    seen = []
    for progress in fit(first):
        seen.append(progress)
        if progress.step == 20:
            checkpoint.save(tmp_path, *first.state())
            break
    second = toy.run(kind, schedule, **settings)
    torch.manual_seed(999)
    with torch.no_grad():
        for weight in second.objective.parameters():
            weight.fill_(0.1)
    second.restore(*checkpoint.load(tmp_path))
    seen += list(fit(second))

    assert [progress.step for progress in seen] == [progress.step for progress in expected]
    assert [figures(progress) for progress in seen] == [figures(progress) for progress in expected]
    assert_same_state(second, whole)
    if kind == "ccp":
        assert expected[-1].metrics["projection"] >= 2


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("xbm", {"transform": ("sft", {})}),
        ("batch", {"transform": ("sft", {"form": "ftl"}), "loss": ("margin", {})}),
        ("ccp", {"pooling": ("gsp", {"prototypes": 3}), "zero_shot": ("", {})}),
    ],
)
def test_every_part_of_a_method_resumes_bit_for_bit(
    toy: ModuleType, tmp_path: Path, kind: str, parts: dict[str, Any]
) -> None:
    parameters: dict[str, Any] = {"ccp": {"patience": 1, "proxies": 2, "pool_size": 3}, "batch": {}}.get(
        kind, {"size": 20, "start_step": 2}
    )
    schedule = Schedule(max_steps=9, validate_every=3)
    whole, first = (toy.run(kind, schedule, parts=parts, **parameters) for _ in range(2))
    list(fit(whole))
    stopped = list(fit(first, should_stop=lambda: first.step == 5))[-1]
    assert stopped.reason == "stopped"
    checkpoint.save(tmp_path, *first.state())
    second = toy.run(kind, schedule, parts=parts, **parameters)
    with torch.no_grad():
        for tensor in second.objective.state_dict().values():
            tensor.zero_()
    torch.manual_seed(999)
    second.restore(*checkpoint.load(tmp_path))
    list(fit(second))
    assert_same_state(second, whole)


@pytest.mark.parametrize("kind", ["batch", "ccp"])
@pytest.mark.parametrize(
    "options",
    [
        Options(clip_norm=0.05),
        Options(warmup_new_layers=7),
        Options(ema=0.9),
        Options(precision="bfloat16"),
        Options(0.05, 7, 0.9, "bfloat16"),
    ],
    ids=["clip", "warm-up", "ema", "bfloat16", "all"],
)
def test_every_option_does_something_and_resumes_bit_for_bit(
    toy: ModuleType, tmp_path: Path, kind: str, options: Options
) -> None:
    parameters: dict[str, Any] = {"patience": 1, "proxies": 2, "pool_size": 3} if kind == "ccp" else {}
    schedule, settings = Schedule(max_steps=12, validate_every=4), {"dropout": 0.3, **parameters}
    without = list(fit(toy.run(kind, schedule, **settings)))
    whole = toy.run(kind, schedule, options=options, **settings)
    expected = list(fit(whole))
    assert [figures(progress) for progress in expected] != [figures(progress) for progress in without]
    first = toy.run(kind, schedule, options=options, **settings)
    seen = list(fit(first, should_stop=lambda: first.step == 5))[:-1]
    checkpoint.save(tmp_path, *first.state())
    second = toy.run(kind, schedule, options=options, **settings)
    with torch.no_grad():
        for tensor in second.objective.state_dict().values():
            tensor.zero_()
    torch.manual_seed(999)
    second.restore(*checkpoint.load(tmp_path))
    seen += list(fit(second))
    assert [figures(progress) for progress in seen] == [figures(progress) for progress in expected]
    assert_same_state(second, whole)


def test_a_stop_between_validations_keeps_everything_for_the_resumption(
    toy: ModuleType, tmp_path: Path
) -> None:
    schedule = Schedule(max_steps=12, validate_every=4)
    whole = toy.run("batch", schedule)
    expected = list(fit(whole))
    first = toy.run("batch", schedule)
    stopped = list(fit(first, should_stop=lambda: first.step == 6))[-1]
    assert (stopped.step, stopped.finished, stopped.reason, stopped.improved) == (6, True, "stopped", False)
    assert figures(stopped) == figures(expected[1])
    checkpoint.save(tmp_path, *first.state())
    second = toy.run("batch", schedule)
    second.restore(*checkpoint.load(tmp_path))
    assert [figures(progress) for progress in fit(second)] == [figures(progress) for progress in expected[2:]]
    assert_same_state(second, whole)


def test_a_restored_run_that_had_finished_yields_its_last_progress_again(toy: ModuleType) -> None:
    schedule = Schedule(max_steps=8, validate_every=4)
    first = toy.run("batch", schedule)
    last = list(fit(first))[-1]
    second = toy.run("batch", schedule)
    second.restore(*first.state())
    assert list(fit(second)) == [last]
    for name, value in second.objective.embedder.state_dict().items():
        assert torch.equal(value, first.best_weights[name])


def test_a_state_stays_what_it_was_while_training_goes_on_and_its_meta_is_json(toy: ModuleType) -> None:
    run = toy.run("ccp", Schedule(max_steps=8, validate_every=4))
    generator = fit(run)
    next(generator)
    tensors, meta = run.state()
    kept, text = {name: value.clone() for name, value in tensors.items()}, json.dumps(meta)
    list(generator)
    assert all(torch.equal(value, kept[name]) for name, value in tensors.items())
    assert json.dumps(meta) == text
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("kind", ["batch", "ccp"])
def test_a_loss_that_is_not_finite_raises_before_the_weights_take_it_up(toy: ModuleType, kind: str) -> None:
    class Broken(toy.ToyFeed):  # type: ignore[misc, name-defined]
        def batch(self, step: int) -> tuple[Tensor, Tensor]:
            images, labels = super().batch(step)
            return images.float() / 255 * (torch.nan if step == 5 else 1), labels

    run = toy.run(kind, Schedule(max_steps=8, validate_every=4), feed=Broken())
    with pytest.raises(Diverged, match="the loss is not finite at step 5") as caught:
        list(fit(run))
    assert (caught.value.step, caught.value.what) == (5, "loss")
    assert all(weight.isfinite().all() for weight in run.objective.parameters())


def test_embeddings_that_are_not_finite_raise_too(toy: ModuleType) -> None:
    run = toy.run()
    with torch.no_grad():
        run.objective.embedder.backbone.bn2.running_var.fill_(torch.nan)
    with pytest.raises(Diverged, match="the embedding is not finite at step 0"):
        list(fit(run))


def test_a_metric_nobody_measures_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'map_at_r'"):
        Schedule(1, 1, metric="map_at_R")
    with pytest.raises(UserError, match="validate_every must be at least 1; got 0"):
        Schedule(1, 0)
