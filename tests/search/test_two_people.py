"""Two people, one tracking server, one name: one has the search, the other one is told whose it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores import new_store
from support.tracking_server import MlflowServer, mlflow_server

from dmltune import tags
from dmltune.errors import UserError
from dmltune.runs import TrackedRun
from dmltune.store import Store
from dmltune.tracking import Tracker, ownership
from dmltune.tracking.ownership import RENEWED, owned

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with mlflow_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def tracker(server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr("dmltune.tracking_server.SECONDS", 60.0)  # the machine may be busy with other tests
    monkeypatch.setattr(ownership, "RENEW_S", 0.3)
    monkeypatch.setattr(ownership, "EXPIRED_S", 6.0)
    return Tracker(Store.at(tmp_path))


def search_of(tracker: Tracker, name: str) -> str:
    experiment = tracker.experiment("space")
    return TrackedRun.open(tracker, experiment, name, role="search", params={}, about={}).run_id


SESSION = """
import sys, time
from pathlib import Path
from dmltune import tracking_server
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.runs import provenance
from dmltune.search.records import TrialRecords
from dmltune.search.result_run import search_run
from dmltune.search.state import SearchState
from dmltune.store import Store
from support.trial_records import run_trial

tracking_server.SECONDS = 60.0  # the machine may be busy with other tests
store, start, overrides = Store.at(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
experiment = load_experiment("glyphs-ccp", overrides)
about = provenance(experiment, "0123456789abcdef")
Path(sys.argv[1], "ready").touch()
while not start.exists():
    time.sleep(0.02)
try:
    with search_run(store, experiment, "ours", "some-space", about) as held:
        state = SearchState("ours", "some-space", "map_at_r", "max", trials_planned=2)
        records = TrialRecords(store, state, experiment, held.run, about, None)
        for score in (0.1, 0.2):
            run_trial(records, score)
            time.sleep(2)
        held.run.end("complete")
except UserError as error:
    print(error)
"""


def test_two_searches_of_one_name_from_two_stores_do_not_mix(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes begin the same search at the same moment, each with a store of its own."""
    environment = os.environ | {"MLFLOW_TRACKING_URI": server.uri, "PYTHONPATH": str(TESTS)}
    environment["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "60"

    def session(person: str, start: Path, *overrides: str) -> subprocess.Popen[str]:
        new_store(tmp_path / person)
        command = [sys.executable, "-c", SESSION, str(tmp_path / person), str(start), *overrides]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment, stderr=subprocess.STDOUT
        )

    start = tmp_path / "start"
    people = ["anna", "ben"]
    sessions = [session(person, start) for person in people]
    while not all((tmp_path / person / "ready").exists() for person in people):
        assert all(each.poll() is None for each in sessions), [each.communicate()[0] for each in sessions]
        time.sleep(0.1)
    start.touch()
    outputs = [each.communicate(timeout=200)[0].strip() for each in sessions]
    assert sorted(map(bool, outputs)) == [False, True], outputs
    loser = people[outputs.index(max(outputs))]
    assert "'ours' is running on this tracking server, by " in max(outputs)
    assert "\n" not in max(outputs)
    late = session(loser, start).communicate(timeout=200)[0]  # the search has ended, and is still not theirs
    assert "lacks trial 0, which MLflow has" in late
    other = session("carl", start, "embedding.dim=32").communicate(timeout=200)[0]
    assert "'ours' is another search on this tracking server: embedding.dim" in other

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr("dmltune.tracking_server.SECONDS", 60.0)
    runs = Tracker(Store.at(tmp_path / "reader")).runs(f"tags.`{tags.NAME}` = 'ours'")
    assert sorted(run.data.tags[tags.NUMBER] for run in runs) == ["0000", "0001", "parent"]
    trials = [run for run in runs if run.data.tags[tags.NUMBER] != "parent"]
    assert len({run.data.tags[tags.DRIVER] for run in trials}) == 1
    assert {run.info.status for run in trials} == {"FINISHED"}


def test_of_many_that_claim_at_once_one_gets_it(tracker: Tracker) -> None:
    run_id = search_of(tracker, "race")
    admitted: list[int] = []
    refused: list[str] = []
    together, leave = threading.Barrier(6), threading.Event()

    def claim() -> None:
        together.wait()
        try:
            with owned(tracker, run_id, "race", lambda text: None) as mine:
                admitted.append(mine.session)
                leave.wait(30)
        except UserError as error:
            refused.append(str(error))
            if len(refused) == 5:
                leave.set()

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert admitted == [1]
    assert len(refused) == 5
    with owned(tracker, run_id, "race", lambda text: None) as mine:  # after its end anybody
        assert mine.session == 2


def test_a_driver_that_is_silent_elsewhere_is_replaced_and_ends_when_it_comes_back(tracker: Tracker) -> None:
    run_id, said = search_of(tracker, "silent"), list[str]()
    tracker.client.log_param(run_id, "search.owner.1", "anna otherhost:77:1 abcd")
    tracker.client.set_tag(run_id, RENEWED, "1 5")
    with owned(tracker, run_id, "silent", said.append) as mine:
        assert mine.session == 2
        assert "anna (process 77 on otherhost)" in said[0]
        tracker.client.log_param(run_id, "search.owner.3", "carl thirdhost:5:1 abcd")  # this one was silent
        for _ in range(100):
            if mine.lost:
                break
            threading.Event().wait(0.1)
        failure = mine.failure()
        assert failure is not None
        assert "taken over by carl (process 5 on thirdhost)" in str(failure)


def test_a_driver_elsewhere_that_lives_is_left_alone(tracker: Tracker) -> None:
    run_id = search_of(tracker, "alive")
    tracker.client.log_param(run_id, "search.owner.1", "anna otherhost:77:1 abcd")
    over = threading.Event()

    def live() -> None:
        count = 0
        while not over.wait(0.3):
            count += 1
            tracker.client.set_tag(run_id, RENEWED, f"1 {count}")

    thread = threading.Thread(target=live)
    thread.start()
    try:
        with (
            pytest.raises(UserError, match="'alive' is running on this tracking server, by anna"),
            owned(tracker, run_id, "alive", lambda text: None),
        ):
            pass
    finally:
        over.set()
        thread.join()
