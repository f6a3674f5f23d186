"""Pictures and system metrics of validations, from one short training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image, ImageColor

from dmltune.core.example_neighbours import NEIGHBOURS, QUERIES, ExampleNeighbours
from dmltune.experiment import load_experiment
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.build import build_feed
from dmltune.train.gallery import FRAME, GAP, RIGHT, TILE, WRONG, draw_gallery
from dmltune.train.orders import Order
from dmltune.train.system_metrics import SWITCH, system_metrics
from dmltune.train.trial import run_trial

EXPERIMENT = load_experiment(
    "glyphs", ["data.classes=40", "data.size=16", "batch.size=16", "max_steps=4", "validate_every=2"]
)


def test_a_training_leaves_a_picture_of_each_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "true")
    order = Order.of("one", EXPERIMENT, tmp_path, Locations(Store.at(tmp_path)))
    reports = list(run_trial(order, torch.device("cpu")))
    names = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert len(names) == 2 * len(reports) == 6
    for name in names:  # as MLflow's page reads them
        key, word, step, stamp, time, rest = name.split("+", 5)
        assert (key, word, stamp) == ("neighbours", "step", "timestamp")
        assert step in "024"
        assert time.isdigit()
        assert rest.endswith((".png", "+compressed.webp"))
    cell = TILE + 2 * FRAME + GAP
    with Image.open(tmp_path / "images" / next(name for name in names if name.endswith(".png"))) as sheet:
        assert sheet.size == (GAP + (1 + NEIGHBOURS) * cell + 2 * GAP, GAP + QUERIES * cell)
    assert reports[-1].system["system/cpu_utilization_percentage"] >= 0
    assert reports[-1].system["system/process_memory_usage_megabytes"] > 10
    monkeypatch.delenv(SWITCH)
    assert system_metrics() == {}


def test_right_and_wrong_neighbours_have_their_frames(tmp_path: Path) -> None:
    feed = build_feed(EXPERIMENT, None)
    right_QK = torch.tensor([[True, False]])
    shown = ExampleNeighbours(torch.tensor([0]), torch.tensor([[1, 2]]), right_QK)
    for step in (3, 3):  # drawn again after a kill
        draw_gallery(shown, feed, tmp_path, step)
    (path,) = (tmp_path / "images").glob("*.png")
    with Image.open(path) as sheet:
        for column, colour in ((1, RIGHT), (2, WRONG)):
            left = GAP + column * (TILE + 2 * FRAME + GAP) + 2 * GAP
            assert sheet.getpixel((left, GAP + TILE)) == ImageColor.getrgb(colour)
    feed.close()
