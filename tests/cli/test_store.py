"""`dmltune store`: a search's store copied, moved, damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.driving import Place
from support.finished_search import COMMAND, NAME, TRIALS, FinishedSearch, finished_search
from support.served import ui

from dmltune import tags
from dmltune.search.stored import StoredSearches
from dmltune.store import Store
from dmltune.tracking import Tracker


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedSearch:
    return finished_search(tmp_path_factory)


@pytest.fixture
def place(tmp_path: Path, finished: FinishedSearch) -> Iterator[Place]:
    """A store that was moved: its databases name the folder of before."""
    before, place = tmp_path / "before", Place(tmp_path / "now")
    shutil.copytree(finished.store, before)
    Tracker(Store.at(before)).names()  # every address is of this folder now
    shutil.rmtree(place.store)
    shutil.move(before, place.store)
    yield place
    place.clean_up()


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_commands_on_a_copy_never_touch_the_original(tmp_path: Path, finished: FinishedSearch) -> None:
    original, place = tmp_path / "original", Place(tmp_path / "copy")
    shutil.copytree(finished.store, original)
    Tracker(Store.at(original)).names()
    shutil.rmtree(place.store)
    shutil.copytree(original, place.store)
    before = contents(original)
    code, out, errors = place.run("store", "check", "-f", "json")
    assert code == 0, errors
    health = json.loads(out)
    assert health["problems"] == []
    assert health["repaired"] >= health["runs"] + health["models"]  # and the experiment, and the versions
    code, _, errors = place.run("evaluate", NAME)
    assert code == 0, errors
    assert contents(original) == before

    shutil.rmtree(original)
    more = ("resume", NAME, "--trials", str(TRIALS + 1))
    page = ("report", NAME, "-o", "page.html")
    for command in (("evaluate", NAME), ("best", NAME), ("check", NAME, "--dry-run"), COMMAND, more, page):
        code, _, errors = place.run(*command)
        assert code == 0, (command, errors)
    assert [trial.state.name for trial in place.study(NAME)] == ["COMPLETE"] * (TRIALS + 1)
    assert len(place.runs(NAME)) == TRIALS + 2
    assert "What is retrieved" in (place.folder / "page.html").read_text(encoding="utf-8")
    with ui(place.store, NAME, tmp_path) as links:
        run_id = place.runs(NAME)["parent"].info.run_id
        address = f"{links['address']}/get-artifact?path=report.html&run_uuid={run_id}"
        assert b"<!DOCTYPE html>" in urllib.request.urlopen(address, timeout=60).read()
    code, out, _ = place.run("store", "check", "-f", "json")
    assert (code, json.loads(out)["repaired"]) == (0, 0)
    assert not original.exists()
    tracker = Tracker(Store.at(place.store))
    version = tracker.client.get_model_version_by_alias(NAME, "champion")
    assert str(place.store) in version.source
    code, _, errors = place.run("rm", NAME, "--yes")
    assert code == 0, errors
    assert [file for file in (place.store / "artifacts").rglob("*") if file.is_file()] == []
    assert not tracker.is_registered(NAME)


def test_a_store_is_moved_with_all_its_models(place: Place) -> None:
    target = place.folder / "elsewhere"
    code, out, errors = place.run("store", "move", str(target))
    assert code == 0, errors
    assert "complete: every stored model is in its place" in out
    assert not place.store.exists()
    search = StoredSearches(Store.at(target)).get(NAME)
    with search.tracker.model_folder(search.labels[tags.WINNER_MODEL]) as folder:
        assert folder is not None
        assert (folder / "model.safetensors").is_file()
    for wrong, rule in (
        (("move",), "needs a folder"),
        (("move", str(target)), "exists"),
        (("move", str(target / "inside")), "inside of the store"),
        (("move", str(place.folder / "no" / "such")), "must be a folder"),
        (("check", "somewhere"), "takes no folder"),
    ):
        code, _, errors = place.run("store", *wrong, "--store", str(target))
        assert (code, errors.count("\n")) == (2, 1), errors
        assert rule in errors


def test_a_missing_model_is_named(place: Place) -> None:
    search = StoredSearches(Store.at(place.store)).get(NAME)
    run = search.tracker.active_run(search.labels[tags.WINNER_MODEL])
    folder = search.tracker.stored_at(run)
    assert folder is not None
    (folder / "model.safetensors").unlink()
    code, out, _ = place.run("store", "check", "-f", "json")
    problems = json.loads(out)["problems"]
    assert (code, [problem["run"] for problem in problems]) == (1, [run.info.run_id])
    assert "is missing; restore it from a backup" in problems[0]["text"]
