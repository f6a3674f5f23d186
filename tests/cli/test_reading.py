"""Commands that only read make no store, and one whose configuration is only planned makes none either."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.cli import main

READING = (
    "runs",
    "best demo",
    "check demo --dry-run",
    "compare demo demo/1",
    "explain references.lambda",
    "export demo -o demo.onnx",
    "export-config demo",
    "importance demo",
    "report demo",
    "resume demo",
    "rm demo --yes",
    "serve demo",
    "stop demo",
    "store check",
    "store move elsewhere",
    "table",
    "train --from demo --all-classes",
    "ui",
)
PLAN = ("glyphs-ccp", "--dry-run")


@pytest.mark.parametrize("words", READING)
def test_a_command_that_reads_makes_no_store(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_STORE", raising=False)
    assert main(words.split()) in (0, 2)
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


def test_a_plan_makes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_STORE", raising=False)
    assert main(["search", *PLAN, "--store", "new/store"]) == 0
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    capsys.readouterr()
    assert main(["search", *PLAN, "--store", "file/store"]) == 2
    assert "the store must be a folder that can be written" in capsys.readouterr().err
