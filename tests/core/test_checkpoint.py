"""Checkpoints: exact, atomic, and clear when damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dmltune.core import checkpoint
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
    found, meta = checkpoint.load(tmp_path / "new" / "folder")
    assert meta == META
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


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


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_damaged_or_missing_checkpoint_is_one_clear_line(tmp_path: Path, keep: int) -> None:
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.load(tmp_path)
    checkpoint.save(tmp_path, TENSORS, META)
    file = tmp_path / checkpoint.CHECKPOINT
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match="is damaged") as caught:
        checkpoint.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_model_comes_with_its_description(tmp_path: Path) -> None:
    checkpoint.save_model(tmp_path, TENSORS, {"embedding": {"dim": 64}})
    tensors, description = checkpoint.load_model(tmp_path)
    assert description == {"embedding": {"dim": 64}}
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())
    assert '"dim": 64' in (tmp_path / checkpoint.DESCRIPTION).read_text()
