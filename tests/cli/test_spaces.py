from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_spaces_say_their_name_their_purpose_and_what_varies(dmltune: Run) -> None:
    text = dmltune("spaces").stdout
    assert "glyphs-ccp\n" in text
    assert "    lambda: float 1e-5 … 0.1, logarithmic\n" in text
    assert "cub   to train, not to search\n" in text
    found = {space["name"]: space for space in json.loads(dmltune("spaces", "-f", "json").stdout)}
    assert {"glyphs-ccp", "cub-ccp", "cub-lite-ccp"} <= set(found)
    assert "references.lambda" in found["glyphs-ccp"]["varies"]
    assert found["cub"]["searchable"] is False


def test_the_spaces_of_the_folder_come_too_and_a_broken_one_says_why(dmltune: Run, tmp_path: Path) -> None:
    folder = tmp_path / "search_spaces"
    folder.mkdir()
    (folder / "mine.yaml").write_text("about: my study\nextends: glyphs-ccp\n", encoding="utf-8")
    (folder / "broken.yaml").write_text("about: [\n", encoding="utf-8")
    done = dmltune("spaces", "-f", "json")
    found = {space["name"]: space for space in json.loads(done.stdout)}
    assert found["mine"]["about"] == "my study"
    assert "references.proxies" in found["mine"]["varies"]
    assert "broken.yaml" in found["broken"]["error"]
    assert done.returncode == 0


def test_a_dry_run_shows_the_plan_and_starts_nothing(dmltune: Run, tmp_path: Path) -> None:
    words = ("search", "glyphs-ccp", "max_steps=100", "data.classes=60", "--trials", "4", "--dry-run")
    text = dmltune(*words).stdout
    for expected in (
        "4 of at most 100 steps",
        "what varies",
        "references.lambda",
        "trial 0",
        "what it costs here",
        "4 trials",
        "nothing was started",
    ):
        assert expected in text
    plan = json.loads(dmltune(*words, "-f", "json").stdout)
    assert plan["trials"] == 4
    assert plan["experiment"]["max_steps"] == 100
    cost = plan["cost"]
    trial = cost["measured"]["trial 0"]
    assert trial["seconds"] == pytest.approx(sum(trial["parts"].values()))
    assert trial["parts"]["steps"] == pytest.approx(100 * trial["step"])
    assert cost["seconds_at_most"] == pytest.approx(4 * trial["seconds"] / cost["concurrent"])
    assert cost["disk_while_running"] > trial["checkpoint_size"] > trial["model_size"] > 100_000
    assert set(plan["reference_point"]) == set(plan["experiment"]["search"])
    assert not list((tmp_path / "mlruns").glob("*.db"))
