"""`dmltune reproduce … --dry-run`: what would be trained, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmltune.cli import main
from dmltune.experiment import load_experiment
from dmltune.reproduce.trainings import Planned
from dmltune.train.run_series import RESULT, TRIALS

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    monkeypatch.setenv("DMLTUNE_OFFLINE", "1")


def test_a_figure_says_what_it_begins_with_and_starts_nothing(tmp_path: Path, capsys: Output) -> None:
    words = ["reproduce", "fig3.8", "--tiny", "--dry-run", "--store", "runs"]
    assert main([*words, "-f", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    counts, cost = plan["studies"]["fig3.8"], plan["cost"]
    assert counts["left"] == counts["trainings"] == cost["trainings"] > 1
    each = [one["seconds"] for one in cost["measured"].values()]
    total = cost["seconds_at_most"] * min(cost["concurrent"], counts["trainings"])
    assert min(each) * counts["trainings"] <= 1.01 * total
    assert total <= 1.01 * max(each) * counts["trainings"]
    assert not list((tmp_path / "runs").rglob("*.safetensors"))


def test_trainings_that_are_done_cost_nothing() -> None:
    from dmltune.cli.reproduce_plan import of_cells

    first, second = (load_experiment("glyphs", [f"seed={seed}"]) for seed in (0, 1))
    other = load_experiment("glyphs", ["loss=triplet"])
    folder = Path("study")
    (folder / TRIALS / "a").mkdir(parents=True)
    (folder / TRIALS / "a" / RESULT).write_text("{}")
    loads = of_cells(Planned({"a": first, "b": second, "c": other}).cells, folder)
    assert [(load.label, load.left, load.total) for load in loads] == [("a", 1, 2), ("c", 1, 1)]


def test_a_table_without_its_data_says_all_that_is_missing(capsys: Output) -> None:
    assert main(["reproduce", "3.1", "--dry-run"]) == 2
    assert "--dry-run is for trainings; add --run to plan them" in capsys.readouterr().err
    assert main(["reproduce", "3.1", "--run", "--dry-run", "--data", "CUB", "--rows", "C2"]) == 2
    answer = capsys.readouterr()
    assert "cannot run here: " in answer.err
    assert "data set 'cub' needs the folder CUB_200_2011" in answer.err
    assert "weights imagenet of bn_inception" in answer.err
    assert answer.out == ""
