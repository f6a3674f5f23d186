"""`dmltune.train` and `dmltune train`: tracked, continued by the same name, evaluated by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Run
from support.driving import Place, kill
from support.stores import new_store

import dmltune
from dmltune import tags
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.store import Store
from dmltune.tracking import Tracker

TINY = ("data.classes=40", "data.size=16", "batch.size=16", "validate_every=2")


def tiny(*overrides: str) -> Experiment:
    return load_experiment("glyphs", [*TINY, *overrides])


def run_of(store: Store, name: str) -> Run:
    (run,) = Tracker(store).runs(f"tags.`{tags.NAME}` = '{name}'")
    return run


def steps_of(store: Store, run: Run) -> list[int]:
    return [point.step for point in Tracker(store).client.get_metric_history(run.info.run_id, "map_at_r")]


def test_a_training_from_python_leaves_a_run_that_evaluate_finds(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    *_, last = dmltune.train(tiny("max_steps=4"), name="first", store=store)
    run = run_of(store, "first")
    assert run.info.status == "FINISHED"
    labels = {tag: run.data.tags[tag] for tag in (tags.ROLE, tags.STATE, tags.NUMBER, tags.MODEL)}
    assert list(labels.values()) == ["training", "complete", tags.PARENT, tags.STORED]
    assert run.data.metrics["best_map_at_r"] == pytest.approx(last.best_score)
    assert steps_of(store, run) == [0, 2, 4]
    document = dmltune.evaluate("first", store=store)
    assert document["map_at_r"] == pytest.approx(last.best_score, abs=1e-5)
    assert document["run_id"] == run.info.run_id
    # a finished training repeats its last report and trains nothing
    assert [report.number for report in dmltune.train(tiny("max_steps=4"), name="first", store=store)] == [2]
    assert steps_of(store, run_of(store, "first")) == [0, 2, 4]
    with pytest.raises(UserError, match="max_steps: 4 → 6") as error:
        list(dmltune.train(tiny("max_steps=6"), name="first", store=store))
    assert "\n" not in str(error.value)
    assert run_of(store, "first").info.status == "FINISHED"


def test_an_interrupted_training_is_killed_in_mlflow_and_continues(tmp_path: Path) -> None:
    store, experiment = new_store(tmp_path), tiny("max_steps=8")
    reports = iter(dmltune.train(experiment, name="stopped", store=store))
    assert [next(reports).step for _ in range(3)] == [0, 2, 4]
    assert run_of(store, "stopped").info.status == "RUNNING"
    reports.close()  # type: ignore[attr-defined]
    assert run_of(store, "stopped").info.status == "KILLED"
    continued = list(dmltune.train(experiment, name="stopped", store=store))
    assert [report.step for report in continued] == [4, 6, 8]  # the report of the checkpoint is repeated
    run = run_of(store, "stopped")
    assert (run.info.status, steps_of(store, run)) == ("FINISHED", [0, 2, 4, 6, 8])
    undisturbed = list(dmltune.train(experiment, name="undisturbed", store=store))
    assert undisturbed[-1].best_score == continued[-1].best_score


def test_a_training_whose_model_is_gone_is_an_error_and_not_complete(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    model = store.search_folder("lost") / "trials" / "0000" / "best" / "model.safetensors"
    with pytest.raises(UserError, match="the worker wrote it to the disk of another machine") as error:
        for report in dmltune.train(tiny("max_steps=4", "optimizer.lr=1e-12"), name="lost", store=store):
            if report.step == 2:
                model.unlink()  # as if it was written to the disk of another machine
    assert "\n" not in str(error.value)
    run = run_of(store, "lost")
    assert (run.data.tags[tags.STATE], run.info.status) == ("interrupted", "KILLED")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.clean_up()


def test_a_killed_training_continues_with_the_same_command(place: Place) -> None:
    command = ("train", "glyphs", *TINY, "max_steps=150", "validate_every=30", "--name", "killed")
    driver = place.start(*command)
    driver.wait_for(lambda: "step    60/150" in driver.text, "under way")
    kill(driver.process)
    driver.finish()
    code, _, errors = place.run(*command)
    assert code == 0, errors
    (first_line, *_) = [line for line in errors.splitlines() if line.startswith("step")]
    assert int(first_line.split()[1].split("/")[0]) >= 60  # the checkpoint, not step 0
    assert place.steps(place.runs("killed")[tags.PARENT]) == list(range(0, 151, 30))


def test_a_training_does_not_need_the_files_of_the_test_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, store = tmp_path / "cache", new_store(tmp_path / "store")
    monkeypatch.setenv("DMLTUNE_CACHE", str(cache))
    experiment = tiny("max_steps=2", "data.classes=30")
    list(dmltune.train(experiment, name="before", store=store))
    tests = [path for path in cache.rglob("*") if "test" in str(path.relative_to(cache)) and path.is_file()]
    assert tests, "the test half has files of its own"
    for path in tests:
        path.write_bytes(b"")
    from dmltune.train.build import training_half

    training_half.cache_clear()
    list(dmltune.train(experiment, name="after", store=store))
