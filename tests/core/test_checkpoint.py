"""Checkpoints: exact, atomic, and clear when damaged."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save

from dmltune.core import checkpoint
from dmltune.core.checkpoint import reading
from dmltune.errors import UserError

TENSORS = {
    "half": torch.randn(3, 4).half(),
    "exact": torch.randn(2, dtype=torch.float64),
    "channels_last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "transposed": torch.arange(6).view(2, 3).T,
    "flag": torch.tensor([True, False]),
    "scalar": torch.tensor(7),
    "nothing": torch.zeros(0),
    "bytes": torch.arange(256).to(torch.uint8),
}
META = {"step": 3, "lr": 0.1 + 0.2, "nested": {"ü": [1, None, True, -1e-300]}}


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {**TENSORS, "same_storage": TENSORS["half"]}
    checkpoint.save(tmp_path / "new" / "folder", tensors, META)
    read, meta = checkpoint.load(tmp_path / "new" / "folder")
    assert meta == META
    assert read.keys() == tensors.keys()
    for name, value in tensors.items():
        assert read[name].dtype == value.dtype
        assert torch.equal(read[name], value)


def test_a_later_save_replaces_the_earlier_and_leaves_one_file(tmp_path: Path) -> None:
    (tmp_path / f".{checkpoint.CHECKPOINT}.killed").write_bytes(b"left over by a killed process")
    checkpoint.save(tmp_path, TENSORS, {"step": 1})
    checkpoint.save(tmp_path, {"a": torch.ones(2)}, {"step": 2})
    tensors, meta = checkpoint.load(tmp_path)
    assert (list(tensors), meta) == (["a"], {"step": 2})
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.CHECKPOINT]


def test_killed_at_any_moment_it_leaves_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    program = """
import sys, torch
from pathlib import Path
from dmltune.core import checkpoint
step = 0
while True:
    checkpoint.save(Path(sys.argv[1]), {"x": torch.full((200_000,), float(step))}, {"step": step})
    print(step, flush=True)
    step += 1
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    for moment in range(3):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.013 * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        tensors, meta = checkpoint.load(tmp_path)
        assert torch.equal(tensors["x"], torch.full((200_000,), float(meta["step"])))


def test_a_damaged_or_missing_checkpoint_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.load(tmp_path)
    checkpoint.save(tmp_path, TENSORS, META)
    file = tmp_path / checkpoint.CHECKPOINT
    whole = file.read_bytes()
    flipped = [flip(whole, bit) for bit in random.Random(0).choices(range(8 * len(whole)), k=300)]
    for content in (*(whole[:size] for size in (0, 5, 40, len(whole) - 1)), *flipped, whole + b"x", b"[]"):
        file.write_bytes(content)
        with pytest.raises(UserError, match=str(file)) as caught:
            checkpoint.load(tmp_path)
        assert "\n" not in str(caught.value)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.load(tmp_path)


def flip(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_newer_format_is_refused_and_the_first_one_is_read(tmp_path: Path) -> None:
    file = tmp_path / checkpoint.CHECKPOINT
    plain = {"x": torch.arange(3.0)}
    text = json.dumps(META)
    file.write_bytes(save({**plain}, {"meta": text, "format": "3", "checksum": "of another kind"}))
    with pytest.raises(UserError, match="has format 3; update dmltune, which reads up to 2"):
        checkpoint.load(tmp_path)
    file.write_bytes(save(plain, {"meta": text}))
    tensors, meta = checkpoint.load(tmp_path)
    assert torch.equal(tensors["x"], plain["x"])
    assert meta == META
    for wrong in ("[1]", "null", "3", "{", ""):
        file.write_bytes(save(plain, {"meta": wrong}))
        with pytest.raises(UserError, match="is damaged"):
            checkpoint.load(tmp_path)


def test_a_checkpoint_that_lacks_a_key_or_is_of_another_network_is_one_clear_line(
    toy: ModuleType, tmp_path: Path
) -> None:
    tensors, meta = toy.run().state()
    path = tmp_path / checkpoint.CHECKPOINT
    others = [({**tensors, "model.embedder.projection.weight": torch.ones(2)}, meta)]
    others += [({n: t for n, t in tensors.items() if n != missing}, meta) for missing in list(tensors)[::9]]
    needed = [name for name in meta if name not in ("plateau", "scaler")]  # older ones have none
    others += [(tensors, {n: v for n, v in meta.items() if n != missing}) for missing in needed]
    others += [(tensors, {**meta, "optimizer": []}), (tensors, {**meta, "loss_since": "a text"})]
    for state, described in others:
        with pytest.raises(UserError, match=f"checkpoint {path} is damaged") as caught, reading(path):
            toy.run().restore(state, described)
        assert "\n" not in str(caught.value)


ABOUT = checkpoint.ModelDescription(
    experiment={"data": {"name": "glyphs"}},
    data="0" * 16,
    step=3,
    validation={"map_at_r": 0.5, "loss": math.nan},
    image_size=32,
    crop_margin=256 / 227,
    exif_rotation=False,
    mean=(0.1, 0.2, 0.3),
    std=(1.0, 2.0, 3.0),
    normalise="lip",
    embedding_size=64,
)


def test_a_model_comes_with_its_description_and_its_checksum(tmp_path: Path) -> None:
    checkpoint.save_model(tmp_path, TENSORS, ABOUT)
    tensors, about = checkpoint.load_model(tmp_path)
    assert repr(about) == repr(ABOUT)  # NaN is not equal to itself
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    readable = json.loads((tmp_path / checkpoint.DESCRIPTION).read_text())
    content = (tmp_path / checkpoint.MODEL).read_bytes()
    assert readable["sha256"] == hashlib.sha256(content).hexdigest()
    assert readable["format"] == 2


def test_a_model_of_format_1_is_completed_by_the_caller(tmp_path: Path) -> None:
    new = ABOUT.to_dict()
    old = {key: new[key] for key in ("experiment", "normalise", "data", "step", "validation")}
    (tmp_path / checkpoint.MODEL).write_bytes(save({"x": torch.ones(1)}, {"meta": json.dumps(old)}))

    def complete(tree: dict[str, Any]) -> dict[str, Any]:
        assert tree["experiment"] == ABOUT.experiment
        return new | {"step": 99}

    _, about = checkpoint.load_model(tmp_path, complete)
    assert repr(about) == repr(ABOUT)
    with pytest.raises(UserError, match="image_size"):
        checkpoint.load_model(tmp_path)


def test_a_model_with_unsuitable_values_is_one_clear_line(tmp_path: Path) -> None:
    wrong = [("normalise", "loud"), ("step", "abc"), ("step", -1), ("std", (0.0, 1.0, 1.0)), ("mean", ())]
    wrong += [("experiment", []), ("data", None), ("validation", {"map_at_r": "good"}), ("resize", "other")]
    for key, value in wrong:
        checkpoint.save_model(tmp_path, TENSORS, replace(ABOUT, **{key: value}))
        with pytest.raises(UserError, match=rf"model\.safetensors is damaged \({key}") as caught:
            checkpoint.load_model(tmp_path)
        assert "\n" not in str(caught.value)
    checkpoint.save_model(tmp_path, {"x": torch.tensor([1.0, math.nan])}, ABOUT)
    with pytest.raises(UserError, match="x is not finite"):
        checkpoint.load_model(tmp_path)


def test_weights_are_loaded_where_every_name_and_shape_agrees() -> None:
    layer, path = torch.nn.BatchNorm2d(3), Path("best/model.safetensors")
    state = {name: value + 1 for name, value in layer.state_dict().items()}
    checkpoint.load_weights(layer, state, path)
    assert layer.weight.tolist() == [2.0, 2.0, 2.0]
    renamed = {name.replace("bias", "basis"): value for name, value in state.items()}
    unsuitable = {
        "bias is missing": {n: v for n, v in state.items() if n != "bias"},
        "basis is not part of this network": {**state, **renamed},
        r"weight has the shape \(1,\)": state | {"weight": torch.ones(1)},
        r"num_batches_tracked has the shape \(1,\)": state | {"num_batches_tracked": torch.ones(1)},
    }
    for message, wrong in unsuitable.items():
        with pytest.raises(UserError, match=f"model best/model.safetensors is damaged .{message}"):
            checkpoint.load_weights(layer, wrong, path)
