"""Whole training steps on a device that only pretends to be there (fake_gpu.py) read nothing on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """One process runs all: the device that it registers would be seen by other tests."""
    environment = os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent}"}
    done = subprocess.run(
        [sys.executable, str(HERE / "fake_gpu.py")], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_no_step_of_any_component_reads_a_value_or_mixes_devices(found: dict[str, Any]) -> None:
    assert found["count"] > 70
    assert found["problems"] == {}


def test_the_loss_is_read_in_the_step_that_looks_and_only_there(found: dict[str, Any]) -> None:
    assert found["looked"] == "DataDependentOutputException"


def test_the_subspace_of_ftl_is_the_one_that_waits(found: dict[str, Any]) -> None:
    assert found["decomposed"] == "HostRead"


def test_a_loss_without_a_mistake_passes(found: dict[str, Any]) -> None:
    assert found["caught"].pop("none") == ""
    assert found["caught"]


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        ("item", "DataDependentOutputException"),
        ("bool", "DataDependentOutputException"),
        ("list", "DataDependentOutputException"),
        ("shape", "DataDependentOutputException"),
        ("nonzero", "DynamicOutputShapeException"),
        ("unique", "DynamicOutputShapeException"),
        ("host tensor", "FakeTensorDeviceMismatchError"),
        ("cpu", "HostRead"),
        ("cpu and back", "HostRead"),
        ("tensor", "NotImplementedError"),  # no kernel fills a tensor of the device from the host
        ("solve", "HostRead"),
    ],
)
def test_a_wrong_loss_is_caught(found: dict[str, Any], mistake: str, error: str) -> None:
    assert found["caught"][mistake] == error


def test_the_step_really_ran_backward_and_the_fused_optimisers(found: dict[str, Any]) -> None:
    needed = {"convolution_backward", "_fused_adam_", "_fused_adamw_", "_fused_sgd_"}
    needed |= {"_foreach_lerp_", "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"}
    assert needed <= set(found["seen"])
    assert not {"_local_scalar_dense", "nonzero", "_unique2"} & set(found["seen"])
