"""Two people, one tracking server, one name: one has the search, the other one is told whose it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.driving import QUICK, Place
from support.stores import new_store
from support.tracking_server import MlflowServer, mlflow_server

from dmltune import tags
from dmltune.errors import UserError
from dmltune.runs import TrackedRun
from dmltune.store import Store
from dmltune.tracking import Tracker, ownership
from dmltune.tracking.ownership import RENEWED, owned


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with mlflow_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def tracker(server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr(ownership, "RENEW_S", 0.3)
    monkeypatch.setattr(ownership, "EXPIRED_S", 3.0)
    return Tracker(Store.at(tmp_path))


def search_of(tracker: Tracker, name: str) -> str:
    experiment = tracker.experiment("space")
    return TrackedRun.open(tracker, experiment, name, role="search", params={}, about={}).run_id


def test_two_searches_of_one_name_from_two_stores_do_not_mix(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = []
    for person in ("anna", "ben"):
        (tmp_path / person).mkdir()
        new_store(tmp_path / person / "mlruns")
        people.append(Place(tmp_path / person))
    words = ("search", "glyphs-ccp", *QUICK, "--trials", "1", "--concurrent", "1", "--name", "ours")
    try:
        drivers = [place.start(*words, MLFLOW_TRACKING_URI=server.uri) for place in people]
        codes = [driver.finish()[0] for driver in drivers]
        assert sorted(codes) == [0, 2], [driver.text for driver in drivers]
        refused = drivers[codes.index(2)]
        assert "'ours' is running on this tracking server, by " in refused.text.splitlines()[-1]
        assert "Traceback" not in refused.text
        late = people[codes.index(2)].start(*words, MLFLOW_TRACKING_URI=server.uri)
        assert late.finish()[0] == 2  # the search has ended, and is still not his
        assert "which MLflow has" in late.text.splitlines()[-1]
        other = people[codes.index(2)].start(*words, "seed=5", MLFLOW_TRACKING_URI=server.uri)
        assert other.finish()[0] == 2
        assert "seed" in other.text.splitlines()[-1]
    finally:
        for place in people:
            place.clean_up()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    runs = Tracker(Store.at(tmp_path / "reader")).runs(f"tags.`{tags.NAME}` = 'ours'")
    assert sorted(run.data.tags[tags.NUMBER] for run in runs) == ["0000", "0001", "parent"]
    assert len({run.data.tags[tags.DRIVER] for run in runs}) == 1
    assert {run.info.status for run in runs} == {"FINISHED"}


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
