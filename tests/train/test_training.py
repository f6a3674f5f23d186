"""`dmltune train`: the loop, folder and checkpoints of a trial; tracked, resumable, evaluated by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import mlflow
import pytest
from support.driving import QUICK, Place, kill


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.clean_up()


def run_of(place: Place, name: str) -> mlflow.entities.Run:
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    experiments = [e.experiment_id for e in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.`dmltune.search` = '{name}'")
    return run


def test_a_training_is_tracked_and_evaluated_by_its_name(place: Place) -> None:
    code, out, errors = place.run("train", "glyphs", *QUICK, "--name", "once", "-f", "json")
    assert code == 0, errors
    last = json.loads(out)
    run = run_of(place, "once")
    assert run.info.status == "FINISHED"
    assert run.data.metrics["best_map_at_r"] == pytest.approx(last["best_score"])
    code, out, errors = place.run("evaluate", "once", "-f", "json")
    assert code == 0, errors
    assert json.loads(out)["map_at_r"] == pytest.approx(last["best_score"], abs=1e-5)


def test_a_killed_training_goes_on_with_the_same_command(place: Place) -> None:
    words = ("train", "glyphs", *QUICK, "max_steps=200", "validate_every=20", "--name", "again", "-f", "json")
    driver = place.start(*words)
    driver.wait_for(lambda: "step    40/200" in driver.text, "under way")
    kill(driver.process)
    driver.finish()
    code, out, errors = place.run(*words)
    assert code == 0, errors
    first_line = errors.splitlines()[0]
    assert int(first_line.split()[1].split("/")[0]) >= 40  # the checkpoint, not step 0
    run = run_of(place, "again")
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    steps = [point.step for point in client.get_metric_history(run.info.run_id, "map_at_r")]
    assert steps == list(range(0, 201, 20))
    code, undisturbed, _ = place.run(*words[:-4], "--name", "undisturbed", "-f", "json")
    assert code == 0
    assert json.loads(undisturbed)["best_score"] == json.loads(out)["best_score"]


def test_a_refused_training_leaves_no_run_and_changes_none(place: Place) -> None:
    code, _, errors = place.run("train", "glyphs", *QUICK, "seed=7", "--name", "once")
    assert code == 2
    assert "seed: 0 → 7" in errors
    assert len(errors.strip().splitlines()) == 1
    assert run_of(place, "once").info.status == "FINISHED"


def test_the_test_half_is_opened_by_evaluate_only(place: Place) -> None:
    """Training does not notice when the files of the test half are destroyed."""
    cache = place.folder / "cache"
    code, _, errors = place.run("train", "glyphs", *QUICK, "--name", "closed", DMLTUNE_CACHE=str(cache))
    assert code == 0, errors
    tests = [path for path in cache.rglob("*") if "test" in str(path.relative_to(cache)) and path.is_file()]
    assert tests, "the test half has files of its own"
    for path in tests:
        path.write_bytes(b"")
    code, _, errors = place.run(
        "train", "glyphs", *QUICK, "seed=1", "--name", "still-closed", DMLTUNE_CACHE=str(cache)
    )
    assert code == 0, errors
