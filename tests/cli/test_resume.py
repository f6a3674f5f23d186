"""`dmltune resume` is the command that began the search, typed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.stored_searches import reference, write_search
from support.stores import new_store

from dmltune.cli import main
from dmltune.search import tuning

WORDS = ("glyphs-ccp", "data.classes=40", "max_steps=90", "optimizer.lr=0.002", "--seed", "4")
OPTIONS = ("--trials", "7", "--time", "90s", "--cost", "2h", "--concurrent", "2", "--isolation", "trial")


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What sessions are started with, in place of running them: all are stopped before their first trial."""
    started: list[dict[str, Any]] = []

    def run_trials(experiment: Any, records: Any, locations: Any, resources: Any, *rest: Any) -> str:
        deadline = records.state.deadline - records.state.started if records.state.deadline else None
        started.append(
            {
                "experiment": experiment.to_dict(),
                "name": records.state.name,
                "space": records.state.space_name,
                "planned": records.state.trials_planned,
                "run": records.parent.run_id,
                "locations": locations,
                "resources": resources,
                "seconds": None if deadline is None else round(deadline),
            }
        )
        return "stopped"

    monkeypatch.setattr(tuning, "run_trials", run_trials)
    return started


def test_it_equals_the_command_that_began_the_search(
    sessions: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = new_store(tmp_path / "runs")
    places = ("--data-root", str(tmp_path), "--store", str(store.root))
    begin = ["search", *WORDS, *OPTIONS, *places, "--name", "x", "--cache", "none"]
    assert main(begin) == 130
    assert main(begin) == 130
    assert main(["resume", "x", "--store", str(store.root), "--cache", "none"]) == 130
    first, again, resumed = sessions
    assert first == again == resumed
    assert (first["planned"], first["resources"].concurrent, first["seconds"]) == (8, 2, 90)
    capsys.readouterr()
    resume = ["resume", "x", "--store", str(store.root), "--trials", "20", "--workers", "2", "--time", "1h"]
    assert main(resume) == 130
    changed = sessions[-1]
    assert (changed["planned"], changed["resources"].workers, changed["seconds"]) == (22, 2, 3600)
    same = ("experiment", "name", "space", "run", "locations")
    assert {key: changed[key] for key in same} == {key: first[key] for key in same}
    hints = [line for line in capsys.readouterr().out.splitlines() if "dmltune resume" in line]
    assert hints == [f"  dmltune resume x --trials 20 --time 1h --workers 2 --store {store.root}"]
    assert main(["resume", "x", "--store", str(store.root)]) == 130
    assert sessions[-1] == changed  # the options of the last session


def test_a_search_that_stored_no_options_says_so(
    sessions: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = new_store(tmp_path)
    write_search(store, "old", [reference(0.4)], state="interrupted", data="not-the-fingerprint")
    assert main(["resume", "old", "--store", str(store.root)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith("'old' was begun by a version that stored no options")
    assert errors[-1].startswith("'old' was made with other data: fingerprint not-the-fingerprint")
    assert sessions == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("odl",), "no search 'odl' in this store; did you mean 'old'?\n"),
        (("old", "--trials", "0"), "--trials: must be a whole number of at least 1; got 0; see"),
        (("old", "--isolation", "slots"), "--isolation: invalid choice: 'slots'"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = new_store(tmp_path)
    write_search(store, "old", [reference(0.4)], state="interrupted")
    assert main(["resume", *words, "--store", str(store.root)]) == 2
    assert capsys.readouterr().err.startswith(message)
