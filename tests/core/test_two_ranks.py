"""Two gloo ranks with half the batch each are one process with the whole batch, in float64 to 1e-10."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.combinations import combinations
from torch import nn

from dmltune.core import checkpoint
from dmltune.core.batch_norm import synchronise_batch_norm

SCRIPT = Path(__file__).parent / "ranks.py"
CASES = [
    *("batch", "batch-adam", "ccp", "ccp-adam", "clip", "warm-up", "plateau", "ema", "ccp-monitor"),
    "ccp-options",
]
EVERY = [*CASES, *combinations()]


def start(folder: Path, rank: int, world: int) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, str(SCRIPT), str(folder), str(rank), str(world)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a group of one rank and of a group of two."""
    folders = [tmp_path_factory.mktemp(f"world{world}") for world in (1, 2)]
    ranks = [start(folders[world - 1], rank, world) for world in (1, 2) for rank in range(world)]
    try:
        for process in ranks:
            _, errors = process.communicate(timeout=200)
            assert process.returncode == 0, errors
    finally:
        for process in ranks:
            process.kill()
    return folders[0], folders[1]


def found(folder: Path, rank: int) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / f"found-{rank}.json").read_text())
    return answer


@pytest.mark.parametrize("case", EVERY)
def test_weights_proxies_and_statistics_equal_those_of_one_process(
    results: tuple[Path, Path], case: str
) -> None:
    for rank in (0, 1):
        require_equal(results[0] / f"{case}-0", results[1] / f"{case}-{rank}")


def require_equal(one: Path, of_two: Path) -> None:
    alone, joined = checkpoint.load(one)[0], checkpoint.load(of_two)[0]
    assert alone.keys() == joined.keys()
    moved = 0
    for name, value in alone.items():
        if name.startswith("generator"):
            continue
        gap = float((joined[name].double() - value.double()).abs().max()) if value.numel() else 0.0
        equal_infinities = torch.equal(joined[name], value)
        assert gap <= 1e-10 or equal_infinities, f"{name} differs by {gap}"
        moved += int(name.startswith("optimizer") and value.dim() > 0 and bool(value.abs().max() > 1e-6))
    assert moved > 3  # there was a gradient


@pytest.mark.parametrize("case", EVERY)
def test_every_rank_reports_the_figures_of_one_process(results: tuple[Path, Path], case: str) -> None:
    for rank in (0, 1):
        for mine, theirs in zip(found(results[1], rank)[case], found(results[0], 0)[case], strict=True):
            timeless = {name: theirs[name] for name in theirs if name not in ("seconds", "images_per_s")}
            assert {name: mine[name] for name in timeless} == pytest.approx(timeless, abs=1e-10)


@pytest.mark.parametrize("case", ["ccp", "ccp-adam", "ccp-monitor"])
def test_the_projection_changes_within_these_steps_and_the_penalty_acts(
    results: tuple[Path, Path], case: str
) -> None:
    assert found(results[1], 0)[case][-1]["projection"] >= 2
    tensors, _ = checkpoint.load(results[1] / f"{case}-1")
    assert tensors["model.references.anchor_W"].numel() > 0


def test_memories_wrap_around_centres_move_and_prototypes_start(results: tuple[Path, Path]) -> None:
    for case in (name for name in EVERY if name not in CASES):
        tensors, _ = checkpoint.load(results[1] / f"{case}-1")
        metrics = found(results[1], 0)[case][-1]
        if "-xbm-" in case:
            assert (metrics["memory"], int(tensors["model.references.next_slot"])) == (20, 36 % 20)
        if "-ccp-" in case:
            assert metrics["projection"] >= 2
        if "-sft-" in case:
            assert tensors["model.transform.centres.values"].abs().sum() > 0
            assert int(tensors["model.transform.draws"]) >= 3
        if "-gsp-" in case:
            assert bool(tensors["model.embedder.pooling.started"])


def test_both_ranks_hold_the_same_bits(results: tuple[Path, Path]) -> None:
    for case in EVERY:
        one, other = (checkpoint.load(results[1] / f"{case}-{rank}")[0] for rank in (0, 1))
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_collectives_do_what_they_say(results: tuple[Path, Path]) -> None:
    for rank in (0, 1):
        two = found(results[1], rank)
        assert two["gather"] == [[0, 1], [10, 11], [12, 13]]
        assert two["number"] == 0.1
        assert two["broadcast"] == [[0.0, 0.0], [0.0, 0.0]]
        assert two["sum"] == [3.0]
        assert two["gathered"] == [[1.0], [2.0]]
        assert two["gradient"] == [[(1 + 2) * 2 * (1.0 + rank)]]  # summed over both ranks' losses
    one = found(results[0], 0)
    assert (one["gather"], one["number"], one["sum"]) == ([[0, 1]], 0.1, [1.0])


def test_the_average_of_the_weights_is_that_of_one_process(results: tuple[Path, Path]) -> None:
    for case in ("ema", "ccp-options"):
        tensors, _ = checkpoint.load(results[1] / f"{case}-1")
        name = "embedder.backbone.conv1.weight"
        assert not torch.equal(tensors[f"model.{name}"], tensors[name.replace("embedder", "ema")])


def test_ranks_agree_on_the_precision(results: tuple[Path, Path]) -> None:
    chosen = {checkpoint.load(results[1] / f"ccp-options-{rank}")[1]["precision"] for rank in (0, 1)}
    assert chosen <= {"float32", "bfloat16"}
    assert len(chosen) == 1


def test_a_batch_norm_of_bfloat16_over_two_ranks_keeps_its_statistics_in_float32(
    results: tuple[Path, Path],
) -> None:
    for rank in (0, 1):
        output, gradient, variance = found(results[1], rank)["half"]
        assert output < 0.02  # half a unit in the last place of 4
        assert gradient < 0.02
        assert variance < 1e-5


def test_rank_zero_stops_all_ranks_and_a_broken_rank_raises_on_all(results: tuple[Path, Path]) -> None:
    for rank in (0, 1):
        assert found(results[1], rank)["stopped"] == [True, "stopped"]
        assert found(results[1], rank)["diverged"] == [2, "loss"]


def test_a_synchronised_batch_norm_alone_is_the_ordinary_one_under_the_same_names() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Sequential(nn.BatchNorm2d(4)))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x = torch.randn(5, 3, 4, 4)
    expected = net.eval()(x)
    synchronise_batch_norm(net)
    assert torch.equal(net(x), expected)
    assert before.keys() == net.state_dict().keys()
