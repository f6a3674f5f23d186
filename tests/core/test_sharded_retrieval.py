"""A gallery in parts over two gloo ranks gives the neighbours of the whole one, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parent / "retrieval_ranks.py"
CASES = ["random", "tied", "half", "small part", "empty part", "uneven classes"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What one rank with everything found, and what each of two ranks did."""
    folders = [tmp_path_factory.mktemp(f"world{world}") for world in (1, 2)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(SCRIPT.parents[2]),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    group = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folders[world - 1]), str(rank), str(world)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for world in (1, 2)
        for rank in range(world)
    ]
    try:
        for process in group:
            _, errors = process.communicate(timeout=100)
            assert process.returncode == 0, errors
    finally:
        for process in group:
            process.kill()
    whole, *parts = (torch.load(folders[w - 1] / f"found-{rank}.pt") for w in (1, 2) for rank in range(w))
    assert list(whole) == CASES
    return whole, parts


@pytest.mark.parametrize("case", CASES)
def test_every_rank_knows_the_neighbours_of_all_queries_in_the_whole_gallery(
    results: tuple[dict[str, Any], list[dict[str, Any]]], case: str
) -> None:
    whole, parts = results
    for found in parts:
        for mine, expected in zip(found[case]["gallery"], whole[case]["gallery"], strict=True):
            assert torch.equal(mine, expected)
        for name, expected in whole[case]["gallery figures"].items():
            assert torch.equal(found[case]["gallery figures"][name], expected), name


@pytest.mark.parametrize("case", CASES)
def test_without_a_gallery_every_rank_gets_the_answers_for_its_own_part(
    results: tuple[dict[str, Any], list[dict[str, Any]]], case: str
) -> None:
    whole, parts = results
    for place, expected in enumerate(whole[case]["alone"]):
        assert torch.equal(torch.cat([found[case]["alone"][place] for found in parts]), expected)
    for name, expected in whole[case]["alone figures"].items():
        assert torch.equal(torch.cat([found[case]["alone figures"][name] for found in parts]), expected), name


def test_points_that_are_not_finite_on_one_rank_are_refused_by_all(
    results: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    assert [found["refused"]["why"] for found in results[1]] == ["embeddings must be finite"] * 2
