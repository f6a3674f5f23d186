"""Stored searches and checks, also of earlier versions: read, shown again, or refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dmltune import tags
from dmltune.check.api import prepare
from dmltune.check.artifacts import DOCUMENT
from dmltune.check.document import CheckDocument, ConfigurationResult
from dmltune.check.finished_search import load_finished_search
from dmltune.check.plan import FILE, stored_digest
from dmltune.check.session import run_check
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.ledger import Ledger
from dmltune.resources import Locations, Resources
from dmltune.runs import TrackedRun
from dmltune.store import Store
from dmltune.tables.finished_checks import checks
from dmltune.tracking import Tracker
from dmltune.train.build import training_images

EXPERIMENT = load_experiment("glyphs-ccp", ["data.classes=40"])
ROW = {"role": "search", "state": "complete", "step": 6, "max_steps": 6, "seconds": 0.5, "run_id": "r"}


def result_tree(name: str = "t") -> dict[str, Any]:
    """result.json of the first version."""
    rows = [
        ROW | {"number": number, "values": dict(EXPERIMENT.space.reference_point), "best": best}
        for number, best in enumerate((0.3, None, 0.4))
    ]
    return {
        "name": name,
        "space_name": "glyphs-ccp",
        "metric": "map_at_r",
        "mode": "max",
        "protocol": "ablation",
        "rows": [*rows, ROW | {"number": 3, "role": "baseline", "values": {}, "best": 0.9}],
        "interrupted": False,
        "reason": "",
    }


def a_store(folder: Path) -> Store:
    store = Store.at(folder)
    add_search(store)
    return store


def add_search(
    store: Store, name: str = "t", result: str | bytes | None = None, experiment: str | None = None
) -> None:
    """Add a finished search; its files may be given."""
    tracker = Tracker(store)
    fingerprint = training_images(EXPERIMENT.reference_experiment(), None).fingerprint
    about = {tags.DATA: f"glyphs:{fingerprint}"}
    run = TrackedRun.open(
        tracker, tracker.experiment("glyphs-ccp"), name, role="search", params={}, about=about
    )
    tree = EXPERIMENT.to_dict() | {"sampler": "tpe", "scheduler": "asha"}  # as the first version wrote them
    files = {
        "result.json": json.dumps(result_tree(name)) if result is None else result,
        "experiment.json": json.dumps(tree) if experiment is None else experiment,
    }
    for file, content in files.items():
        if content:
            path = store.root / file
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            tracker.log_file(run.run_id, path)
    run.end("complete")


def test_a_search_of_the_first_version_can_be_checked(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    search = load_finished_search("t", Tracker(store))
    assert [trial.number for trial in search.complete_trials()] == [2, 0]
    since = ["sampler.name: 'tpe' → 'auto'", "scheduler.unit: 'steps' → 'projections'"]
    assert search.experiment.differences(EXPERIMENT) == since
    prepared = prepare("t", store=store, repeats=1)
    assert [each.key for each in prepared.plan.configurations] == ["winner", "baseline"]
    assert prepared.plan.configurations[0].labels == ("winner", "reference point")


def test_every_damaged_file_of_a_search_is_one_line(tmp_path: Path) -> None:
    text, store = json.dumps(result_tree()), Store.at(tmp_path)
    damaged = {
        "truncated": ({"result": text[:15]}, "result.json of run"),
        "binary": ({"result": b"\xff\xfe\x00"}, "result.json of run"),
        "list": ({"result": "[]"}, "the result of search 'list' is damaged: it must be a JSON object"),
        "key": ({"result": text.replace("space_name", "x")}, "is damaged: space_name: field required"),
        "row": ({"result": text.replace('"number": 0', '"number": "a"')}, "rows.0.number"),
        "gone": ({"result": ""}, "complete, and its artifact result.json is missing"),
        "experiment": ({"experiment": "{"}, "experiment.json of run"),
        "experiment-gone": ({"experiment": ""}, "complete, and its artifact experiment.json is missing"),
        "experiment-list": (
            {"experiment": "[]"},
            "the result of search 'experiment-list' is damaged: an experiment must be",
        ),
        "experiment-key": (
            {"experiment": '{"lss": 1}'},
            "the result of search 'experiment-key' is damaged: unknown key 'lss'",
        ),
    }
    for name, (files, message) in damaged.items():
        add_search(store, name, **files)  # type: ignore[arg-type]
        with pytest.raises(UserError) as caught:
            prepare(name, store=store)
        assert message in str(caught.value), name
        assert "\n" not in str(caught.value), name


def test_names_that_no_search_has_are_one_short_line(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for name in ("it's", "x' or 1=1 --", "a\\", "\udcff", "tt", "A" * 100_000, ""):
        for look_up in (
            lambda name=name: prepare(name, store=store),
            lambda name=name: checks(store, [name]),
        ):
            with pytest.raises(UserError) as caught:
                look_up()
            assert len(str(caught.value)) < 300
            assert str(caught.value).isprintable()
    with pytest.raises(UserError, match=r"did you mean 't'|there are t"):
        prepare("tt", store=store)
    with pytest.raises(UserError, match="'t' is the name of a search"):
        prepare("t", store=store, name="t")


def finished_check(store: Store) -> tuple[TrackedRun, Path]:
    """A finished check `t-check` as an earlier version left it: no schema, another text of the plan."""
    prepared = prepare("t", store=store, repeats=1, folds=1)
    folder = store.search_folder("t-check")
    folder.mkdir(parents=True)
    prepared.plan.write(folder)
    plan = json.loads((folder / FILE).read_text())
    for each in plan["configurations"]:
        each["experiment"] |= {"sampler": "tpe", "scheduler": "asha"}
    (folder / FILE).write_text(json.dumps(plan, indent=1))
    document = CheckDocument(
        name="t-check", space_name="glyphs-ccp", data="glyphs", fingerprint="f", protocol="fair", folds=1,
        repeats=1, search="t", plan=stored_digest(folder), baseline="baseline", test_images=890,
        configurations=tuple(ConfigurationResult(each.key) for each in prepared.plan.configurations),
    )  # fmt: skip
    tree = document.to_dict()
    del tree["schema"]
    (folder / DOCUMENT).write_text(json.dumps(tree))
    tracker = Tracker(store)
    about = {tags.CHECKED: "t", "git.commit": "old", "version.torch": "1"}
    run = TrackedRun.open(
        tracker, tracker.experiment("glyphs-ccp"), "t-check", role="check", params={}, about=about
    )
    tracker.log_file(run.run_id, folder / DOCUMENT)
    run.tag({tags.DRIVER: "elsewhere:1:1"})
    run.end("complete")
    return run, folder


def test_a_finished_check_is_shown_again_and_its_run_keeps_commit_and_driver(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    run, folder = finished_check(store)
    assert [check.document.search for check in checks(store, ["t"])] == ["t"]
    before = run.tracker.active_run(run.run_id)
    prepared = prepare("t", store=store, repeats=1, folds=1)
    result = run_check(prepared, Resources(), Locations(store), print)
    assert result.nothing_new
    assert not result.stopped
    assert result.document.test_images == 890
    after = run.tracker.active_run(run.run_id)
    assert after.data.tags == before.data.tags
    assert (after.data.tags["git.commit"], after.data.tags[tags.DRIVER]) == ("old", "elsewhere:1:1")
    assert after.info.end_time == before.info.end_time
    assert [entry.kind for entry in Ledger(store).entries("t")] == ["shown again"]
    assert json.loads((folder / DOCUMENT).read_text())["schema"] == 2
    more = prepare("t", store=store, repeats=2, folds=1)
    assert len(more.plan.members()) == 2 * len(prepared.plan.members())
    shutil.rmtree(store.artifacts)  # or the store was moved
    with pytest.raises(
        UserError, match=r"check 't-check' is complete, and its artifact check\.json is missing"
    ):
        checks(store)


def test_every_damaged_file_of_a_check_is_one_line(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    _, folder = finished_check(store)
    plan, document = (folder / FILE).read_text(), (folder / DOCUMENT).read_text()
    damaged = [
        (FILE, plan[:14], "JSONDecodeError"),
        (FILE, plan.replace('"configurations"', '"x"'), "configurations: field required"),
        (FILE, plan.replace('"loss"', '"lss"', 1), "lss"),
        (FILE, "[]", "must be a JSON object"),
        (DOCUMENT, document[:14], "JSONDecodeError"),
        (DOCUMENT, document.replace('"folds": 1', '"folds": null'), "folds: input should be a valid integer"),
        (DOCUMENT, document.replace("{", '{"schema": 9, ', 1), "has schema '9'"),
    ]
    for file, text, message in damaged:
        (folder / FILE).write_text(plan)
        (folder / DOCUMENT).write_text(document)
        (folder / file).write_text(text)
        with pytest.raises(UserError) as caught:
            run_check(prepare("t", store=store), Resources(), Locations(store), print)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert file in str(caught.value)
