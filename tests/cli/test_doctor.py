from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from dmltune.train import two_ranks

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_two_gloo_ranks_have_the_gradient_of_one_process() -> None:
    assert two_ranks.difference() <= two_ranks.TOLERANCE


def test_doctor_finds_versions_devices_store_and_says_which_data_are_missing(
    dmltune: Run, tmp_path: Path
) -> None:
    done = dmltune("doctor", "--data-root", str(tmp_path / "none"), "-f", "json", seconds=240)
    document = json.loads(done.stdout)
    checks = {(check["topic"], check["name"]): check for check in document["checks"]}
    assert done.returncode == 0
    assert document["ok"] is True
    assert checks["versions", "ray"]["state"] == "ok"
    assert checks["devices", "cpu"]["state"] == "ok"
    assert checks["store", "folder"]["state"] == "ok"
    assert checks["data", "cub"]["state"] == "absent"
    assert "--data-root" in checks["data", "cub"]["text"]
    assert checks["data", "glyphs"]["state"] == "ok"
    assert checks["training", "two gloo ranks"]["state"] == "ok"


def test_a_store_that_cannot_be_written_fails_the_examination(dmltune: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = dmltune("doctor", "--store", "file", "--data-root", str(tmp_path), seconds=240)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "1 of" in done.stdout
