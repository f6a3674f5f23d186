"""A tracking server that is away, slow or failing: what is written waits, and arrives once, in its order."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import Run
from support.tracking_server import Mode, Proxy, mlflow_server, proxy_before

from dmltune import tags
from dmltune.errors import UserError
from dmltune.runs import TrackedRun
from dmltune.store import Store
from dmltune.tracking import SpooledTracker, delivery
from dmltune.tracking.spool import FILES, LINES, Spool
from dmltune.train.orders import TrialReport


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with mlflow_server(tmp_path_factory.mktemp("server")) as server, proxy_before(server.port) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", proxy.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "6")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(delivery, "FIRST_S", 0.1)
    monkeypatch.setattr("dmltune.tracking_server.SECONDS", 60.0)  # the machine may be busy with other tests
    proxy.mode, proxy.only = "pass", ""
    yield Store.at(tmp_path)
    proxy.mode, proxy.only = "pass", ""


def report_of(step: int, score: float) -> TrialReport:
    return TrialReport(step, step, 10, {"map_at_r": score, "loss": 1 / (1 + step)}, score, score, step)


def parent_of(tracker: SpooledTracker, name: str) -> TrackedRun:
    about = {"experiment": tracker.experiment("space")}
    return TrackedRun.open(
        tracker, about["experiment"], name, role="search", metric="map_at_r", params=about, about={}
    )


def trial_of(parent: TrackedRun, number: str) -> TrackedRun:
    tracker, name = parent.tracker, f"{parent.run_name}-{number}"
    return TrackedRun.open(
        tracker, parent.params["experiment"], parent.run_name, number, role="search", metric="map_at_r",
        run_name=name, params={"lr": 0.1}, about={"some": "tag"}, parent=parent,
    )  # fmt: skip


def write_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    about = {"step": 10, "validation": {"map_at_r": 0.5}, "embedding_size": 8}
    (folder / "model.json").write_text(json.dumps(about))
    return folder


def whole_trial(parent: TrackedRun, number: str, folder: Path, before_steps: dict[int, Mode] | None = None,
                proxy: Proxy | None = None) -> TrackedRun:  # fmt: skip
    """Everything that a search writes of a trial; the proxy changes before the steps named."""
    run = trial_of(parent, number)
    for step in (0, 5, 10):
        if proxy is not None and before_steps and step in before_steps:
            proxy.mode = before_steps[step]
        run.log(report_of(step, 0.05 * step))
    run.store_model(write_model(folder))
    run.end("complete", "max_steps", step=10, best=0.5)
    return run


def run_of(tracker: SpooledTracker, name: str, number: str) -> Run:
    (run,) = tracker.runs(f"tags.`{tags.NAME}` = '{name}' and tags.`{tags.NUMBER}` = '{number}'")
    return run


def require_whole(tracker: SpooledTracker, name: str, number: str) -> None:
    """Each point is there once, with its model, tags, parameters and end."""
    run = run_of(tracker, name, number)
    for metric in ("map_at_r", "loss"):
        points = tracker.client.get_metric_history(run.info.run_id, metric)
        assert [point.step for point in points] == [0, 5, 10]
        assert [point.timestamp for point in points] == sorted(point.timestamp for point in points)
    (best,) = tracker.client.get_metric_history(run.info.run_id, "best_map_at_r")
    assert (best.step, best.value) == (10, 0.5)
    assert run.info.status == "FINISHED"
    assert (run.data.tags[tags.STATE], run.data.tags["some"]) == ("complete", "tag")
    assert run.data.params == {"lr": "0.1"}
    with tracker.model_folder(run.info.run_id) as folder:
        assert folder is not None
        assert (folder / "model.safetensors").read_bytes() == b"weights"
    model = tracker.client.get_logged_model(tracker.model_id(run.info.run_id))
    assert {metric.key for metric in model.metrics or ()} >= {"map_at_r", "best_map_at_r"}


@pytest.mark.parametrize("mode", ["refuse", "error", "lost", "slow"])
def test_what_a_server_does_not_take_arrives_once_it_does(
    proxy: Proxy, store: Store, tmp_path: Path, mode: Mode
) -> None:
    name, folder = f"away-{mode}", tmp_path / "search"
    tracker = SpooledTracker(store, folder)
    parent = parent_of(tracker, name)
    proxy.delay_s = 8.0
    began = time.monotonic()
    whole_trial(parent, "0000", tmp_path / "best0", {5: mode}, proxy)
    opened_away = whole_trial(parent, "0001", tmp_path / "best1")
    assert time.monotonic() - began < 40  # of which a request may wait for its time-out; the rest did not
    assert opened_away.run_id == f"pending/{name}/0001"
    assert tracker.away
    assert [note for note in tracker.notes if "the search goes on" in note] == list(tracker.notes)
    assert len(tracker.notes) == 1
    assert stat.S_IMODE((folder / LINES).stat().st_mode) == 0o600
    proxy.mode = "pass"
    tracker.flush(60)
    assert "answers again" in tracker.notes[-1]
    for number in ("0000", "0001"):
        require_whole(tracker, name, number)
    assert tracker.resolved(opened_away.run_id) == run_of(tracker, name, "0001").info.run_id
    assert not (folder / LINES).exists()
    assert not (folder / FILES).exists()


@pytest.mark.parametrize("lost", ["runs/create", "runs/log-batch", "runs/update", "logged-models"])
def test_a_write_whose_answer_was_lost_is_not_done_twice(
    proxy: Proxy, store: Store, tmp_path: Path, lost: str
) -> None:
    name = "lost-" + lost.replace("/", "-")
    tracker = SpooledTracker(store, tmp_path / "search")
    parent = parent_of(tracker, name)
    proxy.only, proxy.mode = lost, "lost"
    whole_trial(parent, "0000", tmp_path / "best")
    proxy.mode = "pass"
    tracker.flush(60)
    require_whole(tracker, name, "0000")
    where = f"source_run_id = '{run_of(tracker, name, '0000').info.run_id}'"
    assert len(tracker.client.search_logged_models([tracker.experiment("space")], filter_string=where)) == 1


def test_a_killed_driver_delivers_at_its_next_start_and_is_told_what_is_missing_until_then(
    proxy: Proxy, store: Store, tmp_path: Path
) -> None:
    name, folder = "restarted", tmp_path / "search"
    first = SpooledTracker(store, folder)
    parent = parent_of(first, name)
    whole_trial(parent, "0000", tmp_path / "best0", {5: "refuse"}, proxy)
    whole_trial(parent, "0001", tmp_path / "best1")
    with pytest.raises(UserError, match="the same command delivers them") as error:
        first.flush(0.3)
    assert "trial 1" in str(error.value)
    assert "2 of them models" in str(error.value)
    first._delivery._failure = RuntimeError("the first driver is dead")  # its thread may not deliver
    proxy.mode = "refuse"
    time.sleep(0.5)
    lines = (folder / LINES).read_bytes()
    with (folder / LINES).open("ab") as file:
        file.write(b'{"number": 99, "method": "lo')  # killed while it wrote a line
    again = SpooledTracker(store, folder)
    with pytest.raises(UserError, match="no tracking server answers"):
        again.deliver()
    proxy.mode = "pass"
    assert again.client
    proxy.mode = "refuse"
    with pytest.raises(UserError, match="They wait in"):
        again.deliver()
    assert (folder / LINES).read_bytes() == lines
    proxy.mode = "pass"
    again.deliver()
    for number in ("0000", "0001"):
        require_whole(again, name, number)
    assert not (folder / LINES).exists()
    reopened = trial_of(parent_of(again, name), "0001")  # killed before the study had the end of the trial
    for step in (5, 10):
        reopened.log(report_of(step, 0.05 * step))
    reopened.end("complete", "max_steps", step=10, best=0.5)
    require_whole(again, name, "0001")


def test_a_step_that_is_trained_again_while_the_server_is_away_has_one_point(
    proxy: Proxy, store: Store, tmp_path: Path
) -> None:
    """MLflow had the validation before the driver died and its study had not; the second one took longer."""
    name, last = "repeated", report_of(10, 0.5)
    run = trial_of(parent_of(SpooledTracker(store, tmp_path / "search"), name), "0000")
    for report in (
        report_of(0, 0.0),
        report_of(5, 0.25),
        replace(last, metrics=last.metrics | {"seconds": 1.0}),
    ):
        run.log(report)
    again = SpooledTracker(store, tmp_path / "search")
    reopened = trial_of(parent_of(again, name), "0000")
    proxy.mode = "refuse"
    reopened.log(replace(last, metrics=last.metrics | {"seconds": 2.0}))
    folder = write_model(tmp_path / "best")
    about = json.loads((folder / "model.json").read_text())
    about["validation"]["seconds"] = 2.0
    (folder / "model.json").write_text(json.dumps(about))
    reopened.store_model(folder)
    reopened.end("complete", "max_steps", step=10, best=0.5)
    assert again.away
    proxy.mode = "pass"
    again.flush(30)
    points = again.client.get_metric_history(run_of(again, name, "0000").info.run_id, "seconds")
    assert [(point.step, point.value) for point in points] == [(10, 1.0)]
    require_whole(again, name, "0000")


def test_a_write_that_is_refused_is_an_error_and_does_not_wait(store: Store, tmp_path: Path) -> None:
    tracker = SpooledTracker(store, tmp_path / "search")
    with pytest.raises(mlflow.MlflowException, match="not found"):
        tracker.tag("0" * 32, {"a": "b"})
    assert not tracker.away


def test_a_damaged_spool_is_one_line(tmp_path: Path) -> None:
    Spool(tmp_path).append("tag", {"run_id": "x"})
    (tmp_path / LINES).write_text('{"number": 0}\n')
    with pytest.raises(UserError, match="is damaged") as error:
        Spool(tmp_path)
    assert "\n" not in str(error.value)
