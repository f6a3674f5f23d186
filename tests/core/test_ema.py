"""The average of the weights: its recursion, and that it is what is validated, kept and handed to CCP."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import checkpoint
from dmltune.core.ema import Ema
from dmltune.core.fit import Options, Schedule, fit
from dmltune.core.retrieval import retrieval_metrics
from dmltune.experiment import load_experiment
from dmltune.train import trial
from dmltune.train.orders import Order

AVERAGED = Options(ema=0.8)


def flat(run: Any, state: dict[str, Tensor]) -> Tensor:
    """The trainable weights in a state of the embedder, as CCP sees them."""
    return torch.cat([state[name].flatten() for name, _ in run.objective.embedder.named_parameters()])


def test_it_is_the_recursion_with_a_decay_that_rises(toy: ModuleType) -> None:
    run = toy.run(schedule=Schedule(50, 50), dtype=torch.float64, options=AVERAGED)
    states: list[dict[str, Tensor]] = []

    def look() -> bool:
        states.append({name: value.clone() for name, value in run.objective.embedder.state_dict().items()})
        return False

    list(fit(run, look))
    after = [*states[1:], run.state()[0]]
    live = {name.removeprefix("model.embedder."): value for name, value in after.pop().items()}
    after.append(live)
    name = "backbone.conv1.weight"
    expected = after[0][name].flatten().tolist()
    for step, state in enumerate(after):
        decay = min(0.8, step / (step + 10))
        values = state[name].flatten().tolist()
        expected = [decay * old + (1 - decay) * new for old, new in zip(expected, values, strict=True)]
    assert run.ema.average[name].flatten().tolist() == pytest.approx(expected, rel=1e-9)
    assert not torch.equal(run.ema.average["backbone.bn1.running_mean"], live["backbone.bn1.running_mean"])
    assert int(run.ema.average["backbone.bn1.num_batches_tracked"]) == 50
    assert run.ema.average.keys() == run.objective.embedder.state_dict().keys()


def test_without_it_nothing_is_kept_or_swapped(toy: ModuleType) -> None:
    run = toy.run(schedule=Schedule(4, 2))
    list(fit(run))
    assert not run.ema.average
    assert not [name for name in run.state()[0] if name.startswith("ema.")]


def test_validation_measures_the_average_and_training_goes_on_with_the_weights(toy: ModuleType) -> None:
    run, plain = toy.run(schedule=Schedule(12, 4), options=AVERAGED), toy.run(schedule=Schedule(12, 4))
    scores = []
    for progress, other in zip(fit(run), fit(plain), strict=True):
        if progress.finished:
            break
        live = run.objective.embedder.state_dict()
        expected = plain.objective.embedder.state_dict()
        assert all(torch.equal(value, expected[name]) for name, value in live.items())
        scores.append((progress.metrics["covering_radius"], other.metrics["covering_radius"]))
        if not run.ema.average:
            continue
        measured = toy.objective().embedder.eval()
        measured.load_state_dict(run.ema.average)
        batches = list(toy.ToyFeed().validation())
        with torch.no_grad():
            emb_ND = torch.cat([measured(images) for images, _ in batches])
        found = retrieval_metrics(emb_ND, torch.cat([labels for _, labels in batches]))
        assert progress.metrics["map_at_r"] == pytest.approx(found["map_at_r"], abs=1e-6)
    assert scores[0][0] == scores[0][1]
    assert scores[2][0] != scores[2][1]


def test_the_best_weights_and_the_embedder_at_the_end_are_averages(toy: ModuleType) -> None:
    schedule = Schedule(60, 2, patience=3, metric="covering_radius", mode="min")
    run = toy.run(schedule=schedule, lr=0.1, options=AVERAGED)
    best: dict[str, Tensor] = {}
    for progress in fit(run):
        if progress.improved and not progress.finished:
            best = {name: value.clone() for name, value in run.ema.average.items()} or run.best_weights
    assert progress.reason == "patience"
    for name, value in run.objective.embedder.state_dict().items():
        assert torch.equal(value, best[name]), name
        assert torch.equal(run.best_weights[name], best[name]), name
    live = run.state()[0]
    weight = "backbone.conv1.weight"
    assert not torch.equal(live[f"model.embedder.{weight}"], best[weight])
    assert not torch.equal(live[f"model.embedder.{weight}"], live[f"ema.{weight}"])


def test_ccp_is_drawn_to_the_average_that_scored_best(toy: ModuleType) -> None:
    small: dict[str, Any] = {"patience": 2, "proxies": 2, "pool_size": 3}
    run = toy.run("ccp", Schedule(40, 2), lr=0.05, options=AVERAGED, **small)
    best_score, best_W, checked = -torch.inf, None, 0
    for progress in fit(run):
        if progress.step == 0 or progress.finished:
            continue
        if progress.score > best_score + 1e-5:
            best_score, best_W = progress.score, flat(run, run.ema.average)
        if progress.metrics["projection"] < float(run.objective.references.projection):  # it ended here
            assert torch.equal(run.objective.references.anchor_W, best_W)
            best_score, checked = -torch.inf, checked + 1
    assert checked >= 2


def test_the_weights_come_back_whatever_happens(toy: ModuleType) -> None:
    embedder = toy.objective().embedder
    ema = Ema(embedder, 0.5)
    ema.update(0)
    before = embedder.projection.weight.detach().clone()
    with torch.no_grad():
        ema.average["projection.weight"].zero_()
    with pytest.raises(RuntimeError, match="on the way"), ema.in_place():
        assert not embedder.projection.weight.any()
        raise RuntimeError("on the way")
    assert torch.equal(embedder.projection.weight, before)


def test_the_model_that_a_trial_keeps_is_the_average(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = Schedule(6, 3, metric="covering_radius", mode="min")
    run = toy.run(schedule=schedule, options=AVERAGED)
    images = type("Images", (), {"fingerprint": "none", "margin": 1.0})
    monkeypatch.setattr(trial, "build_run", lambda *given: run)
    monkeypatch.setattr(trial, "training_images", lambda *given: images)
    experiment = load_experiment("glyphs").reference_experiment()
    order = Order("a", experiment.to_dict(), str(tmp_path), None, 1)
    kept = {}
    for report in trial.run_trial(order, torch.device("cpu")):
        if report.step == report.best_step:
            kept = {name: value.clone() for name, value in run.ema.average.items()} or run.best_weights
            saved, about = checkpoint.load_model(tmp_path / "best")
            assert about.step == report.step
            assert all(torch.equal(value, kept[name]) for name, value in saved.items())
    assert kept
