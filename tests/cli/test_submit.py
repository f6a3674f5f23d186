"""`dmltune submit` against a Ray head on loopback that is started here and ends here."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dmltune.cli import submit
from dmltune.errors import UserError
from dmltune.experiment import Job, load_experiment
from dmltune.store import Store
from dmltune.tracking import Tracker

Run = Callable[..., subprocess.CompletedProcess[str]]
RAY = str(Path(sys.executable).with_name("ray"))
QUICK = ["data.classes=40", "data.size=16", "batch.size=16", "max_steps=4", "validate_every=2"]


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A token of the tests' own: neither head nor client looks for one in the home folder."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(secrets.token_hex(32), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
        yield file


@pytest.fixture(scope="module")
def head(token: Path) -> Iterator[str]:
    """The address of its dashboard. `ray start --block` takes its children with it when it is terminated."""
    port, dashboard, agent = (str(free_port()) for _ in range(3))
    options = {
        "--node-ip-address": "127.0.0.1",
        "--port": port,
        "--dashboard-host": "127.0.0.1",
        "--dashboard-port": dashboard,
        "--dashboard-agent-listen-port": agent,
        "--num-cpus": "2",
        "--object-store-memory": str(128 * 2**20),
    }
    with tempfile.TemporaryDirectory(prefix="dmlh-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [RAY, "start", "--head", "--block", "--disable-usage-stats", "--temp-dir", folder]
            + [word for option in options.items() for word in option],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},  # every socket on loopback
        )
        address = f"http://127.0.0.1:{dashboard}"
        try:
            wait_for_agent(int(agent))
            yield address
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_for_agent(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("Ray's head did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ray_job(word: str, job_id: str, head: str) -> str:
    done = subprocess.run(
        [RAY, "job", word, job_id, "--address", head], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def job_file(folder: Path, **changes: object) -> Path:
    path = folder / "small.yaml"
    job = {"space": "glyphs-ccp", "name": "small", "trials": 2, "overrides": QUICK} | changes
    path.write_text(json.dumps(job), encoding="utf-8")
    return path


@pytest.mark.timeout(600)
def test_a_job_is_followed_to_its_end_and_its_runs_are_in_the_store(
    head: str, dmltune: Run, tmp_path: Path
) -> None:
    store = tmp_path / "cluster runs"
    words = ("submit", str(job_file(tmp_path)), "--address", head, "--store", str(store))
    done = dmltune(*words, "-f", "json", seconds=500)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "SUCCEEDED"
    assert document["store"] == str(store)
    assert "validation classes" in done.stderr, "the job's own summary is part of the log"
    tracker = Tracker(Store(store))
    parent = tracker.find("small")
    assert parent is not None
    assert parent.info.status == "FINISHED"
    assert len(tracker.children(parent)) == 2
    repeated = dmltune(*words, seconds=500)
    assert repeated.returncode == 0, "the same name continues, and nothing is left to do"
    assert f"dmltune evaluate small --split test --store '{store}'" in repeated.stdout
    assert len(tracker.children(parent)) == 2


@pytest.mark.timeout(300)
def test_the_exit_code_of_a_job_that_fails_is_ours(head: str, dmltune: Run, tmp_path: Path) -> None:
    path = job_file(tmp_path, space="cub-lite-ccp", overrides=[], data_root="/nowhere/on/the/cluster")
    done = dmltune("submit", str(path), "--address", head, "--store", str(tmp_path / "runs"), seconds=250)
    assert done.returncode == 2
    assert "/nowhere/on/the/cluster" in done.stdout
    assert "failed" in done.stderr


@pytest.mark.timeout(300)
def test_ctrl_c_leaves_the_job_alone_and_says_how_to_stop_it(head: str, tmp_path: Path) -> None:
    path = job_file(tmp_path, overrides=[*QUICK[:3], "max_steps=100000"])
    words = ["submit", str(path), "--address", head, "--store", str(tmp_path / "runs")]
    process = subprocess.Popen(
        [sys.executable, "-m", "dmltune", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stderr is not None
        job_id = process.stderr.readline().split()[1]
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the job goes on" in message
    assert f"ray job stop {job_id} --address {head}" in message
    assert ray_job("status", job_id, head).count("RUNNING") or ray_job("status", job_id, head).count(
        "PENDING"
    )
    assert "was stopped" in ray_job("stop", job_id, head), "the words that were shown do stop it"


def test_the_space_goes_along_as_one_flat_file(tmp_path: Path) -> None:
    experiment = load_experiment("glyphs-ccp", ["max_steps=100"])
    written = submit.write_space(experiment.to_dict(), tmp_path / "flat.yaml")
    assert "extends" not in written.read_text(encoding="utf-8")
    assert load_experiment(written) == experiment


def test_the_command_of_a_job_says_everything_the_job_says() -> None:
    job = Job(space="glyphs-ccp", trials=3, time="1h", workers=2, concurrent=1, data_root="/my data")
    assert submit.entrypoint(job, "python", "n", "glyphs-ccp.yaml", "/runs", None) == (
        "python -m dmltune search glyphs-ccp.yaml --data-root '/my data' --store /runs --trials 3 --time 1h"
        " --name n --workers 2 --concurrent 1 --address auto"
    )


def test_the_package_is_shipped_unless_the_job_says_no(tmp_path: Path) -> None:
    shipped = submit.runtime_env(Job(space="s", runtime_env={"env_vars": {"A": "1"}, "pip": ["x"]}), tmp_path)
    assert Path(shipped["py_modules"][0]).name == "dmltune"
    assert shipped["env_vars"]["A"] == "1"
    assert shipped["pip"] == ["x"]
    assert shipped["working_dir"] == str(tmp_path)
    assert "py_modules" not in submit.runtime_env(Job(space="s", ship=False), tmp_path)


def test_a_store_that_would_end_with_the_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_STORE", raising=False)

    def places(address: str, store: str | None) -> Namespace:
        return Namespace(address=address, store=Path(store) if store else None)

    remote, local = "http://head:8265", "http://127.0.0.1:8265"
    assert submit.store_of(Job(space="s", store="/shared"), places(remote, None)) == "/shared"
    assert submit.store_of(Job(space="s", store="/shared"), places(remote, "/other")) == "/other"
    assert submit.store_of(Job(space="s"), places(local, None)) == str(tmp_path / "mlruns")
    for store in (None, "runs"):
        with pytest.raises(UserError, match="outlives"):
            submit.store_of(Job(space="s"), places(remote, store))
