"""kill -9, Ctrl-C, failing trials: only the work since the last checkpoint is lost."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import mlflow
import pytest
from optuna.trial import TrialState
from support.driving import QUICK, SMALL, Place, kill

LONGER = (*SMALL, "max_steps=60", "validate_every=15")
VALIDATED = list(range(0, 61, 15))


def statuses(place: Place, name: str) -> dict[str, list[str]]:
    """MLflow status by dmltune number; a list, so that a trial with two runs shows."""
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    runs = client.search_runs(
        [e.experiment_id for e in client.search_experiments()], f"tags.`dmltune.search` = '{name}'"
    )
    by_number: dict[str, list[str]] = {}
    for run in runs:
        by_number.setdefault(run.data.tags["dmltune.number"], []).append(run.info.status)
    return by_number


def curve(place: Place, name: str, number: str, metric: str) -> list[tuple[int, float]]:
    """(step, value) as they are in MLflow, a repeated one twice."""
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    where = f"tags.`dmltune.search` = '{name}' and tags.`dmltune.number` = '{number}'"
    (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()], where)
    return [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, metric)]


def steps_written(place: Place, name: str, number: str) -> list[int]:
    return [step for step, _ in curve(place, name, number, "map_at_r")]


def trained(place: Place, name: str, *overrides: str) -> dict[str, Any]:
    """Trial 0 of a search, without one: the last report."""
    code, out, errors = place.run("train", "glyphs-ccp", *overrides, "--name", name, "-f", "json")
    assert code == 0, errors
    last: dict[str, Any] = json.loads(out)
    return last


def test_after_ctrl_c_and_after_a_killed_driver_the_same_command_repeats_and_loses_nothing(
    place: Place,
) -> None:
    command = ("search", "glyphs-ccp", *LONGER, "--trials", "4", "--concurrent", "1", "--name", "killed")
    driver = place.start(*command)
    driver.wait_for(lambda: place.step("killed", 0) >= 15, "a trial under way")
    driver.process.send_signal(signal.SIGINT)
    code, out = driver.finish()
    assert code == 130
    assert "Traceback" not in driver.text + out
    assert "dmltune search glyphs-ccp" in out
    assert "--name killed" in out
    assert "--trials 4" in out
    assert not driver.alive()
    assert "RUNNING" not in {status for each in statuses(place, "killed").values() for status in each}

    driver = place.start(*command, "-f", "json")
    driver.wait_for(lambda: place.step("killed", 1) >= 15, "a second trial under way")
    driver.look()
    kill(driver.process)
    driver.finish()
    before = place.study("killed")
    done = {t.number: (t.value, t.datetime_complete) for t in before if t.state == TrialState.COMPLETE}
    running = [t.number for t in before if t.state == TrialState.RUNNING]
    assert done
    assert running

    code, out, errors = place.run(*command, "-f", "json")
    assert code == 0, errors
    after = place.study("killed")
    assert [t.state for t in after] == [TrialState.COMPLETE] * 4  # three points and the baseline
    for number, (value, completed) in done.items():
        assert (after[number].value, after[number].datetime_complete) == (value, completed)
    assert statuses(place, "killed") == {f"{n:04d}": ["FINISHED"] for n in range(4)} | {
        "parent": ["FINISHED"]
    }
    for number in range(4):
        assert steps_written(place, "killed", f"{number:04d}") == VALIDATED  # none twice
    assert json.loads(out)["winner"]["state"] == "complete"
    assert not list(Path("/tmp").glob(f"dmltune-ray-{driver.process.pid}-*"))


def test_a_killed_worker_and_a_killed_controller_cost_no_trial(place: Place) -> None:
    command = ("search", "glyphs-ccp", *LONGER, "--trials", "1", "--concurrent", "1", "--name", "worker")
    driver = place.start(*command, "-f", "json")
    driver.wait_for(lambda: place.step("worker", 0) >= 30, "a trial under way")
    (worker,) = driver.workers()
    kill(worker)
    driver.wait_for(lambda: place.step("worker", 1) >= 15, "the baseline under way")
    (controller,) = driver.processes("TrainController")
    kill(controller)
    code, out = driver.finish()
    assert code == 0, driver.text
    assert [row["state"] for row in json.loads(out)["rows"]] == ["complete"] * 2
    for number in ("0000", "0001"):
        assert steps_written(place, "worker", number) == VALIDATED

    undisturbed = trained(place, "undisturbed", *LONGER)
    assert json.loads(out)["rows"][0]["best"] == undisturbed["best_score"]  # resumed bit for bit


def test_two_workers_survive_the_death_of_rank_1_and_give_the_loss_of_one(place: Place) -> None:
    """The loss of one step in float32. That gradients and many steps agree is tested in tests/core."""
    every_step = (*SMALL, "max_steps=16", "validate_every=1")
    command = ("search", "glyphs-ccp", *every_step, "--trials", "1", "--workers", "2", "--name", "two")
    driver = place.start(*command, "-f", "json")
    driver.wait_for(lambda: place.step("two", 0) >= 4, "a trial under way")
    workers = driver.workers()
    assert len(workers) == 2
    kill(max(workers, key=lambda process: process.pid))
    code, out = driver.finish()
    assert code == 0, driver.text
    assert [row["state"] for row in json.loads(out)["rows"]] == ["complete"] * 2
    assert steps_written(place, "two", "0000") == list(range(17))

    one = trained(place, "by-one", *SMALL, "max_steps=1", "validate_every=1")
    step, loss = curve(place, "two", "0000", "loss")[0]
    assert step == 1
    assert loss == pytest.approx(one["metrics"]["loss"], rel=1e-4)


SPACE_THAT_FAILS = """
extends: glyphs
search:
  optimizer.weight_decay: {choice: [0.0, 10.0]}
sampler: random
reference_point: {optimizer.weight_decay: 0.0}
"""


def test_a_trial_that_diverges_is_failed_with_its_reason_and_the_search_goes_on(place: Place) -> None:
    (place.folder / "diverges.yaml").write_text(SPACE_THAT_FAILS)
    command = ("optimizer={name: sgd, lr: 100.0}", *QUICK, "--trials", "2", "--concurrent", "1")
    code, out, errors = place.run("search", "diverges.yaml", *command, "--name", "nan", "-f", "json")
    rows = json.loads(out)["rows"]
    failed = [row for row in rows if row["state"] == "failed"]
    assert failed, errors
    assert "not finite at step" in failed[0]["reason"]
    trials = place.study("nan")
    assert [t.state == TrialState.FAIL for t in trials] == [row["state"] == "failed" for row in rows]
    assert statuses(place, "nan")[f"{failed[0]['number']:04d}"] == ["FAILED"]
    assert len(rows) == 2  # the search went on after it
    assert code == (0 if len(failed) < 2 else 1)


def test_a_clean_process_for_every_trial_when_asked(place: Place) -> None:
    driver = place.start(
        "search", "glyphs-ccp", *QUICK, "--trials", "1", "--concurrent", "1", "--isolation", "trial",
        "--name", "isolated", "-f", "json",
    )  # fmt: skip
    seen: set[int] = set()

    def watch() -> bool:
        seen.update(worker.pid for worker in driver.workers())
        return driver.process.poll() is not None

    while not watch():
        time.sleep(0.2)
    code, out = driver.finish()
    assert code == 0, driver.text
    assert len(json.loads(out)["rows"]) == 2
    assert len(seen) >= 2  # one process for the reference, one for the baseline
