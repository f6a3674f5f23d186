"""A mistake is one line on stderr that says the remedy, exit code 2, nothing on stdout, no traceback."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_a_misspelt_space_names_the_nearest_one(dmltune: Run) -> None:
    assert (
        one_line(dmltune("search", "glyphs-cpp"))
        == "no search space 'glyphs-cpp'; did you mean 'glyphs-ccp'?"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("serach glyphs-ccp", "no command 'serach'; did you mean 'search'?"),
        ("search glyphs-ccp --trails 3", "no option '--trails' in dmltune search; did you mean '--trials'?"),
        ("search glyphs-ccp --trials 0", "--trials: must be a whole number of at least 1; got 0"),
        ("search glyphs-ccp --trials many", "--trials: must be a whole number of at least 1; got many"),
        ("search glyphs-ccp --time 3x", "--time: must be a time such as 90s, 30m or 1h30m; got 3x"),
        ("search glyphs-ccp --time 0s", "--time: must be a time"),
        ("search glyphs-ccp foo", "must look like key=value, for example seed=1; got foo"),
        ("search glyphs-ccp loss.neg_margn=1", "'neg_margn' in loss"),
        ("search glyphs-ccp --isolation slots", "--isolation: invalid choice: 'slots'"),
        ("search", "the following arguments are required: SPACE; see dmltune search --help"),
        ("search glyphs-ccp --name a/b", "a name must be"),
        ("search glyphs", "nothing to search"),
        ("train glyphs --workers 0", "--workers: must be a whole number of at least 1; got 0"),
        ("evaluate nobody", "no search, training or run 'nobody' in this store"),
        ("evaluate demo --split tset", "--split: invalid choice: 'tset'"),
        ("ui", "no runs in"),
        ("ui --port 0", "--port: must be"),
        ("submit jobs/none.yaml", "no file 'jobs/none.yaml' for a job"),
        (
            "submit glyphs-ccp --address head:8265",
            "--address must be the dashboard's, such as http://head:8265",
        ),
        ("submit glyphs-ccp --address http://head:8265 --store runs", "needs a store that outlives it"),
        ("submit glyphs-ccp --address http://127.0.0.1:9", "no Ray cluster answers at http://127.0.0.1:9"),
    ],
)
def test_every_wrong_word_has_one_line_with_rule_value_and_remedy(
    words: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("DMLTUNE_STORE", "DMLTUNE_DATA", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    code = main(words.split())
    captured = capsys.readouterr()
    done = subprocess.CompletedProcess(words, code, captured.out, captured.err)
    assert expected in one_line(done)


def test_data_that_are_not_there_are_told_before_ray_starts_with_a_command_that_runs(
    dmltune: Run, tmp_path: Path
) -> None:
    done = dmltune("search", "cub-lite-ccp", "--data-root", str(tmp_path / "none"), "--trials", "1")
    assert done.returncode == 2
    title, problem, advice, command = done.stderr.splitlines()
    assert title == "cub-lite-ccp cannot begin here: 1 problem"
    assert str(tmp_path / "none") in problem
    assert "--data-root" in problem
    assert advice == "this runs here now:"
    assert command.startswith("  dmltune search glyphs-ccp")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extends: glyphs-ccp\nreferences: {lamda: 0.1}\n", "mine.yaml:2: unknown key 'lamda' in references"),
        (
            "extends: glyphs-ccp\nsearch:\n  loss.neg_margin: {float: [1.0, 0.1]}\n",
            "mine.yaml:3: search.loss.neg_margin: high must be above low; got [1.0, 0.1]. Swap them.",
        ),
    ],
)
def test_a_mistake_in_a_file_has_its_line(dmltune: Run, tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    assert expected in one_line(dmltune("search", "mine.yaml"))


def test_in_json_a_mistake_leaves_stdout_empty(dmltune: Run) -> None:
    one_line(dmltune("search", "glyphs-ccp", "--trials", "0", "-f", "json"))
    one_line(dmltune("evaluate", "nobody", "-f", "json"))
