"""Clipping, warm-up, averaged weights and precision as keys: what they mean, their errors, searching them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dmltune.core.run import Options
from dmltune.experiment import Experiment, load_experiment
from dmltune.train.build import build_embedder, options_of

FILE = "search_spaces/mine.yaml"
Message = Callable[..., str]
Write = Callable[..., Path]


def test_nothing_is_done_unless_it_is_said() -> None:
    assert options_of(load_experiment("glyphs")) == Options()


def test_the_keys_reach_the_training_and_survive_a_round_trip() -> None:
    overrides = ["optimizer={clip_norm: 10, warmup_new_layers: 50, ema: 0.999}", "precision=bfloat16"]
    experiment = load_experiment("glyphs", overrides)
    assert options_of(experiment) == Options(10.0, 50, 0.999, "bfloat16")
    assert Experiment.from_dict(experiment.to_dict()) == experiment
    assert "optimizer.ema: 0.0 → 0.999" in load_experiment("glyphs").differences(experiment)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("optimizer: {clip_norm: 0}", f"{FILE}:2: optimizer.clip_norm must be above 0"),
        ("optimizer: {ema: 1.0}", f"{FILE}:2: optimizer.ema must be below 1"),
        ("optimizer: {warmup_new_layers: -1}", f"{FILE}:2: optimizer.warmup_new_layers must be at least 0"),
        ("device: {timeout_s: 5}", f"{FILE}:2: device.timeout_s must be at least 60"),
        ("device: {compiled: true}", f"{FILE}:2: unknown key 'compiled' in device; did you mean 'compile'"),
        ("optimizer: {warmup: 5}", f"{FILE}:2: unknown key 'warmup'"),
        ("precision: float8", f"{FILE}:2: no precision 'float8'; did you mean"),
        (
            "optimizer: {warmup_new_layers: 100}\nmax_steps: 100\nvalidate_every: 50",
            f"{FILE}:2: optimizer.warmup_new_layers must be below max_steps, or the backbone is never "
            "trained; got 100 and 100. Use the steps of one epoch.",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place(message: Message, text: str, line: str) -> None:
    assert message(f"extends: glyphs\n{text}\n").startswith(line)


def test_they_can_be_searched_and_precision_cannot(write: Write, message: Message) -> None:
    write(
        "mine",
        "extends: glyphs\n"
        "search:\n"
        "  optimizer.clip_norm: {float: [0.1, 10.0], log: true}\n"
        "  optimizer.ema: {choice: [0.0, 0.99]}\n"
        "  optimizer.warmup_new_layers: {int: [0, 50]}\n"
        "reference_point: {optimizer.clip_norm: 1.0}\n",
    )
    experiment = load_experiment("mine")
    point = experiment.space.sample(random.Random(0), 10)
    assert point is not None
    options = options_of(experiment.point(point))
    assert options.clip_norm == point["optimizer.clip_norm"]
    assert (options.ema, options.warmup_new_layers) == (
        point["optimizer.ema"],
        point["optimizer.warmup_new_layers"],
    )
    assert options_of(experiment.reference_experiment()).clip_norm == 1.0
    line = message("extends: glyphs\nsearch: {precision: {choice: [float32, auto]}}\n")
    assert "precision cannot be searched" in line
    line = message("extends: glyphs\nsearch: {device.compile: {choice: [true, false]}}\n")
    assert "device.compile cannot be searched: it is the same for all trials" in line


def test_the_keys_of_the_device_reach_the_training(write: Write) -> None:
    write("mine", "extends: glyphs\ndevice: {compile: true}\nprecision: float16\n")
    experiment = load_experiment("mine", ["device.channels_last=false", "device.timeout_s=90"])
    assert options_of(experiment) == Options(precision="float16", compile=True)
    assert build_embedder(experiment, "l2").layout == torch.contiguous_format
    assert build_embedder(load_experiment("glyphs"), "l2").layout == torch.channels_last
    assert experiment.device.timeout_s == 90
    assert experiment.device.pinned
    assert Experiment.from_dict(experiment.to_dict()) == experiment
