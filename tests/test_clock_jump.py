"""The clock of the machine is set: nobody who lives is taken for dead, and no limit is reached."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient
from optuna.trial import TrialState
from support.trial_records import EXPERIMENT, REFERENCE, open_records, report_of, write_model

from dmltune.errors import UserError
from dmltune.provenance import has_ended, this_process
from dmltune.scratch import OWNER, remove_stale_folders
from dmltune.search.limits import SpendingLimits
from dmltune.storage import lease
from dmltune.storage.addresses import AddressTransport
from dmltune.storage.lease import Lease
from dmltune.train.orders import TrialReport

DAYS = 3 * 86_400


class Jump:
    """Set the clock of this process: its time, and what the kernel reports as the start of the machine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch, self._time, self._boot = patch, time.time, psutil.boot_time()

    def __call__(self, seconds: float) -> None:
        self._patch.setattr(time, "time", lambda: self._time() + seconds)
        module = psutil._psplatform
        self._patch.setattr(module, "boot_time", lambda *_: self._boot + seconds)


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    return Jump(monkeypatch)


@pytest.mark.parametrize("seconds", [DAYS, -DAYS, 1])
def test_a_process_that_lives_is_not_taken_for_ended(
    jump: Jump, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(lease, "SETTLE_S", 0.0)
    process = this_process()
    folder = tmp_path / "dmltune-trial-1-0123abcd"
    folder.mkdir()
    (folder / OWNER).write_text(process)
    first, second = (Lease(AddressTransport(f"file://{tmp_path}/runs"), process) for _ in range(2))
    first.take()
    jump(seconds)
    assert not has_ended(process)
    remove_stale_folders()
    assert folder.is_dir(), "the files of a training that goes on"
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda _: (first.renew(), sleep(0.01)))  # the owner lives
    with pytest.raises(UserError, match="is in use by process"):
        second.take()


def test_a_process_of_an_earlier_version_is_compared_as_that_one_wrote_it() -> None:
    started = int(psutil.Process().create_time())
    assert not has_ended(f"{socket.gethostname()}:{os.getpid()}:{started}")
    assert has_ended(f"{socket.gethostname()}:{os.getpid()}:{started - 60}")
    assert has_ended(f"{this_process()}1")


def test_a_trial_has_its_own_duration_and_every_point_once(jump: Jump, tmp_path: Path) -> None:
    records = open_records(tmp_path)
    limits = SpendingLimits(time=3600.0)
    limits.start(records.state)
    number = records.open("search", REFERENCE, 10).number
    write_model(records, number)
    for step, seconds in ((2, DAYS), (4, -DAYS), (6, 0)):
        jump(seconds)
        records.progress(number, TrialReport(step, step, 10, {"map_at_r": 0.5}, 0.5, 0.5, step), EXPERIMENT)
    jump(DAYS)
    records.progress(number, report_of(0.75), EXPERIMENT)
    jump(-DAYS)
    row = records.close(number, "")
    assert 0 <= row.seconds < 60
    assert limits.used() < 0.1
    trial = records.study.trial(number)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 0.75)
    assert sorted(trial.intermediate_values) == [2, 4, 6, 10]
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    run = client.get_run(row.run_id)
    assert (run.info.status, run.data.metrics["map_at_r"]) == ("FINISHED", 0.75)
    steps = sorted(point.step for point in client.get_metric_history(row.run_id, "map_at_r"))
    assert steps == [2, 4, 6, 10]
