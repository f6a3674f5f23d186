"""Studies in PostgreSQL that restarts in the middle: a call waits, and is made once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import OperationalError
from support.postgres import Postgres, is_installed, postgres
from support.trial_records import EXPERIMENT, REFERENCE

from dmltune.search.sampling import as_template
from dmltune.search.study import Study
from dmltune.store import Store

pytestmark = pytest.mark.skipif(not is_installed(), reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres("optuna") as server:
        yield server


@pytest.fixture
def study(server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("DMLTUNE_OPTUNA_STORAGE", server.uri("optuna"))
    return Study(Store.at(tmp_path), tmp_path.name, "max")


def template() -> FrozenTrial:
    return as_template(EXPERIMENT.space, REFERENCE, {"role": "search"})


def test_a_study_goes_on_after_its_database_was_away(study: Study, server: Postgres) -> None:
    first = study.create(template())
    server.restart()  # all connections are broken
    study.set_score(first, 5, 0.25)
    server.control("-m", "immediate", "stop")
    back = threading.Timer(3.0, server.control, ("start",))
    back.start()
    began = time.monotonic()
    second = study.create(template())
    assert time.monotonic() - began > 2
    back.join()
    server.restart()
    study.finish(first, TrialState.COMPLETE, 0.25)
    assert [trial.number for trial in study.trials()] == [first, second]
    assert study.trial(first).intermediate_values == {5: 0.25}
    assert (study.trial(first).state, study.trial(first).value) == (TrialState.COMPLETE, 0.25)


def test_a_study_is_opened_while_its_server_restarts(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLTUNE_OPTUNA_STORAGE", server.uri("optuna"))
    server.control("-m", "immediate", "stop")
    back = threading.Timer(2.0, server.control, ("start",))
    back.start()
    assert Study(Store.at(tmp_path), tmp_path.name, "max").trials() == []
    back.join()


def test_a_call_whose_answer_was_lost_is_not_made_twice(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter([True, False, False])
    create = RDBStorage.create_new_trial

    def create_and_lose(*args: object) -> int:
        number: int = create(*args)  # type: ignore[arg-type]
        if next(lost):
            raise OperationalError("insert", {}, Exception("server closed the connection"))
        return number

    monkeypatch.setattr(RDBStorage, "create_new_trial", create_and_lose)
    assert [study.create(template()), study.create(template())] == [0, 1]
    assert len(study.trials()) == 2


def test_an_error_of_the_caller_does_not_wait(study: Study) -> None:
    began = time.monotonic()
    with pytest.raises(KeyError):
        study.set_score(77, 1, 0.5)
    assert time.monotonic() - began < 5
