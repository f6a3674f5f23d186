"""What commands show beside their result: how they continue, what was skipped, where to look instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dmltune.cli import evaluate, main, train
from dmltune.ledger import Ledger, LedgerEntry
from dmltune.store import Store
from dmltune.tracking import Tracker


def test_a_training_that_is_interrupted_shows_the_command_that_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train_with", interrupted)
    options = ["max_steps=80", "--name", "n", "--store", str(tmp_path), "--cache", "none"]
    assert main(["train", "glyphs-ccp", *options]) == 130
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == (
        f"  dmltune train glyphs-ccp max_steps=80 --cache none --store {tmp_path} --name n"
    ), lines


def test_evaluate_of_a_check_names_the_command_that_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Tracker(Store.at(tmp_path))
    key = {"dmltune.search": "photos-check", "dmltune.number": "parent"}
    tracker.begin_run(tracker.experiment("own"), "photos-check", key, {}, {"dmltune.role": "check"})[0]
    assert main(["evaluate", "photos-check", "--store", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "'photos-check' is a check; its models are measured already. "
        "Show it with: dmltune table photos-check\n"
    )


def test_evaluate_passes_overrides_on_and_counts_and_names_what_was_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {}

    def measured(name: str, overrides: list[str], **options: Any) -> dict[str, Any]:
        given.update(options, name=name, overrides=overrides)
        options["progress"](5, 10)
        facts = {"images": 9, "classes": 2, "data": "own", "trial": "0", "step": 3, "run_id": "r"}
        return {"name": name, "split": "test", "map_at_r": 0.5, **facts, "skipped": ["a\x1b.jpg", "b.jpg"]}

    monkeypatch.setattr("dmltune.evaluation.evaluate", measured)
    assert main(["evaluate", "n", "data.missing=skip", "--split", "test", "--store", str(tmp_path)]) == 0
    assert (given["name"], given["overrides"], given["split"]) == ("n", ["data.missing=skip"], "test")
    out = capsys.readouterr().out
    assert "2 listed images are missing or unreadable and were skipped: a\\x1b.jpg, b.jpg" in out
    many = {
        "images": 9,
        "classes": 2,
        "data": "own",
        "trial": "",
        "step": 0,
        "run_id": "",
        "skipped": [f"{n}.jpg" for n in range(9)],
    }
    assert "9 listed images" in evaluate.facts(many)[1]
    assert evaluate.facts(many)[1].endswith("4.jpg, …")


def test_whether_the_test_classes_were_read_comes_from_the_ledger(tmp_path: Path) -> None:
    ledger = Ledger(Store.at(tmp_path))
    assert not ledger.was_opened("glyphs")
    ledger.write(LedgerEntry("evaluate", "t", "why", "glyphs", "f"))
    assert ledger.was_opened("glyphs")
    assert not ledger.was_opened("cub")
