"""The backbone in bfloat16: where it begins and ends, and how "auto" decides."""

from __future__ import annotations

import copy
import json
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmltune.core import precision
from dmltune.core.fit import Options, Schedule, fit
from dmltune.errors import UserError

HALF = Options(precision="bfloat16")
SCHEDULE = Schedule(max_steps=6, validate_every=3)


def test_only_the_backbone_and_only_in_training_computes_in_bfloat16(toy: ModuleType) -> None:
    embedder = toy.objective().embedder
    embedder.lowered = torch.bfloat16
    seen: dict[str, torch.dtype] = {}

    def watch(name: str, part: nn.Module) -> None:
        part.register_forward_hook(lambda _, given, out: seen.update({name: out.dtype}))

    for name in ("backbone", "backbone.conv2", "projection", "pooling"):
        watch(name, embedder.get_submodule(name))
    images, _ = toy.ToyFeed().batch(0)
    half, single = torch.bfloat16, torch.float32
    out = embedder.train()(images)
    assert seen == {"backbone": half, "backbone.conv2": half, "projection": single, "pooling": single}
    assert out.dtype == single
    torch.autograd.backward(out.sum())
    assert {weight.grad.dtype for weight in embedder.parameters()} == {single}
    with torch.no_grad():
        embedder.eval()(images)
    assert set(seen.values()) == {single}


def test_the_loss_is_nearly_the_same_and_training_improves_alike(toy: ModuleType) -> None:
    schedule = Schedule(60, 20)
    runs = [toy.run(schedule=schedule), toy.run(schedule=schedule, options=HALF)]
    exact, rough = (list(fit(run)) for run in runs)
    assert rough[1].metrics["loss"] != exact[1].metrics["loss"]
    assert rough[1].metrics["loss"] == pytest.approx(exact[1].metrics["loss"], rel=0.02)
    assert rough[-1].best_score > rough[0].score + 0.05


def test_float64_is_never_lowered(toy: ModuleType) -> None:
    runs = [toy.run(schedule=SCHEDULE, dtype=torch.float64, options=options) for options in (None, HALF)]
    for run in runs:
        list(fit(run))
    (expected, _), (found, _) = (run.state() for run in runs)
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


@pytest.mark.parametrize(
    ("seconds", "choice"), [((1.0, 0.94), "bfloat16"), ((1.0, 0.97), "float32"), ((1.0, 1.5), "float32")]
)
def test_auto_takes_bfloat16_where_it_saves_time_and_a_resumed_run_asks_no_more(
    toy: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, float], choice: str
) -> None:
    measured = dict(zip(("float32", "bfloat16"), seconds, strict=True))
    monkeypatch.setattr(precision, "measured", lambda *given: measured)
    auto = Options(precision="auto")
    run = toy.run(schedule=SCHEDULE, options=auto)
    progress = fit(run)
    next(progress)
    next(progress)
    assert run.precision == choice
    tensors, meta = run.state()
    assert meta["precision"] == choice
    list(progress)

    monkeypatch.setattr(precision, "measured", lambda *given: pytest.fail("measured again"))
    second, named = (
        toy.run(schedule=SCHEDULE, options=options) for options in (auto, Options(precision=choice))
    )
    second.restore(tensors, meta)
    for other in (second, named):
        list(fit(other))
        assert other.precision == choice
        expected = run.state()[0]
        assert all(torch.equal(value, expected[name]) for name, value in other.state()[0].items())


def test_measuring_leaves_no_trace(toy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "GAIN", 1.0)  # float32 stays, whatever is measured
    settings: dict[str, Any] = {"schedule": SCHEDULE, "dropout": 0.3}
    plain, measured = toy.run(**settings), toy.run(**settings, options=Options(precision="auto"))
    for run in (plain, measured):
        torch.manual_seed(5)
        list(fit(run))
    assert measured.precision == "float32"
    expected = plain.state()[0]
    assert all(torch.equal(value, expected[name]) for name, value in measured.state()[0].items())


def test_both_types_are_measured_on_a_copy(toy: ModuleType) -> None:
    embedder = toy.objective().embedder
    before = copy.deepcopy(embedder.state_dict())
    kinds: list[torch.dtype] = []

    def note(module: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        kinds.append(out.dtype)

    embedder.backbone.conv1.register_forward_hook(note)  # goes with the copy
    found = precision.measured(embedder, toy.ToyFeed().batch(0)[0])
    assert found.keys() == {"float32", "bfloat16"}
    assert all(0 < seconds < 60 for seconds in found.values())
    assert kinds == [torch.float32, torch.bfloat16] * 4
    assert all(torch.equal(value, before[name]) for name, value in embedder.state_dict().items())
    assert all(weight.grad is None for weight in embedder.parameters())


def test_float16_is_refused_on_a_cpu(toy: ModuleType) -> None:
    with pytest.raises(UserError, match="precision float16 needs a GPU; got a CPU"):
        toy.run(options=Options(precision="float16"))


def scaled(toy: ModuleType, scale: float, **settings: Any) -> Any:
    """A run with the scaler that float16 has on a GPU; the backbone computes in float32, as CPUs can."""
    run = toy.run(schedule=SCHEDULE, **settings)
    run.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
    return run


@pytest.mark.parametrize("options", [None, Options(clip_norm=1e-3, warmup_new_layers=2, ema=0.5)])
def test_a_scale_that_is_a_power_of_two_changes_no_digit(toy: ModuleType, options: Options | None) -> None:
    plain, run = toy.run(schedule=SCHEDULE, options=options), scaled(toy, 2.0**8, options=options)
    for each in (plain, run):
        list(fit(each))
    expected, found = plain.state()[0], run.state()[0]
    assert all(torch.equal(value, expected[name]) for name, value in found.items())
    assert run.scaler.get_scale() == 2.0**11  # grown after every second of six steps


def test_a_step_whose_gradient_overflows_is_left_out_and_the_scale_falls(toy: ModuleType) -> None:
    run = scaled(toy, 2.0**8)
    run.objective.embedder.projection.weight.register_hook(lambda gradient: gradient * torch.inf)
    before = {name: value.clone() for name, value in run.objective.embedder.named_parameters()}
    progress = fit(run, lambda: run.step == 1)
    list(progress)
    assert run.scaler.get_scale() == 2.0**7
    after = dict(run.objective.embedder.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_a_resumed_run_goes_on_with_the_scale(toy: ModuleType) -> None:
    whole, first, second = (scaled(toy, 2.0**4) for _ in range(3))
    list(fit(whole))
    progress = fit(first)
    next(progress)
    next(progress)
    tensors, meta = first.state()
    meta = json.loads(json.dumps(meta))
    assert meta["scaler"]["scale"] == 2.0**5
    second.restore(tensors, meta)
    list(fit(second))
    assert second.scaler.state_dict() == whole.scaler.state_dict()
    expected = whole.state()[0]
    assert all(torch.equal(value, expected[name]) for name, value in second.state()[0].items())
    del meta["scaler"]  # a checkpoint of an older version
    toy.run(schedule=SCHEDULE).restore(tensors, meta)
