"""A trial in its folder: what is measured of the untrained network elsewhere is not measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from dmltune.core import fit as fit_module
from dmltune.core.run import MEASURES
from dmltune.experiment import load_experiment
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.orders import Order, TrialReport
from dmltune.train.trial import run_trial

TIMES = {"fit_seconds", "seconds", "images_per_s"}


def run(folder: Path, untrained: dict[str, float] | None = None) -> list[TrialReport]:
    overrides = ["data.classes=40", "batch.size=32", "max_steps=4", "validate_every=2"]
    experiment = load_experiment("glyphs-ccp", overrides).reference_experiment()
    order = Order.of("s/0000", experiment, folder, Locations(Store.at(folder / "store")), untrained=untrained)
    return list(run_trial(order, torch.device("cpu")))


def test_measures_of_the_untrained_network_that_are_given_are_used_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Any] = []
    embed = fit_module._embed_validation
    monkeypatch.setattr(fit_module, "_embed_validation", lambda run: measured.append(run.step) or embed(run))
    anew = run(tmp_path / "anew")
    assert measured == [0, 2, 4]
    measured.clear()
    known = {name: anew[0].metrics[name] for name in MEASURES}
    given = run(tmp_path / "given", known)
    assert measured == [2, 4]
    for first, second in zip(anew, given, strict=True):
        assert (first.step, first.score, first.best_score) == (second.step, second.score, second.best_score)
        names = first.metrics.keys() - TIMES
        assert {name: first.metrics[name] for name in names} == {name: second.metrics[name] for name in names}
