"""`dmltune submit` and `dmltune jobs` against a Ray head with a token, an MLflow server and PostgreSQL.

One head and one pair of servers for the file. They listen on 127.0.0.1 and end here.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from mlflow import MlflowClient
from support.postgres import is_installed, postgres
from support.ray_head import ray_head
from support.tracking_server import mlflow_server

from dmltune import tags

PATIENCE_S = 400
Run = Callable[..., subprocess.CompletedProcess[str]]
QUICK = [
    "data.classes=40",
    "data.size=16",
    "batch.size=16",
    "max_steps=4",
    "validate_every=2",
    "noise_seeds=1",
]
LONG = [*QUICK[:3], "max_steps=100000", "validate_every=20", "noise_seeds=1"]


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A token of the tests' own: neither head nor client looks for one in the home folder."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(secrets.token_hex(32), encoding="utf-8")
    file.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
        yield file


@pytest.fixture(scope="module")
def head(token: Path) -> Iterator[str]:
    with ray_head(token) as (dashboard, gcs):
        os.environ["TEST_GCS"] = gcs
        yield dashboard


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of MLflow's server and of the studies' database."""
    if not is_installed():
        pytest.skip("Debian's package postgresql is not installed")
    with postgres("mlflow", "optuna") as database:
        folder = tmp_path_factory.mktemp("mlflow")
        with mlflow_server(folder, database.uri("mlflow")) as tracking:
            MlflowClient(tracking.uri).search_experiments()  # the first answer takes longest
            yield tracking.uri, database.uri("optuna")


def job_file(folder: Path, **changes: object) -> Path:
    path = folder / "small.yaml"
    job = {"space": "glyphs-ccp", "name": "small", "trials": 2, "overrides": QUICK} | changes
    path.write_text(json.dumps(job), encoding="utf-8")
    return path


def children(tracking: str, name: str) -> tuple[Any, list[Any]]:
    """Return the search's run on the server, and those of its trials."""
    client = MlflowClient(tracking)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.`{tags.NAME}` = '{name}'")
    trials = [run for run in runs if run.data.tags[tags.NUMBER] != tags.PARENT]
    (parent,) = [run for run in runs if run.data.tags[tags.NUMBER] == tags.PARENT]
    return parent, trials


@pytest.mark.timeout(900)
def test_a_job_runs_on_the_cluster_with_servers_and_its_result_comes_back_as_json(
    head: str, servers: tuple[str, str], dmltune: Run, tmp_path: Path
) -> None:
    tracking, studies = servers
    store = tmp_path / "cluster runs"
    needs = {"cpus": 0.5, "memory": "100MiB"}
    path = job_file(tmp_path, tracking=tracking, studies=studies, retries=1, resources=needs)
    words = ("submit", str(path), "--address", head, "--store", str(store))
    done = dmltune(*words, "-f", "json", seconds=500)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["exit_code"], document["name"]) == ("SUCCEEDED", 0, "small")
    assert document["store"] == str(store)
    assert document["result"]["winner"]["best"] > 0
    assert "lead" in document["result"]["verdict"]  # two trials know no noise, so it is null
    assert document["result"]["trials"] == 2
    assert "validation classes" in done.stderr, "the job's own summary is part of the log"
    assert "dmltune-result" not in done.stderr
    parent, trials = children(tracking, "small")
    assert parent.info.status == "FINISHED"
    assert len(trials) == 2
    assert {study.study_name for study in optuna.get_all_study_summaries(studies)} == {"small"}
    repeated = dmltune(*words, seconds=500)
    assert repeated.returncode == 0, "the same name continues, and nothing is left to do"
    next_command = f"dmltune evaluate small --split test --store '{store}'"
    assert (
        f"MLFLOW_TRACKING_URI={tracking} DMLTUNE_OPTUNA_STORAGE={studies} {next_command}" in repeated.stdout
    )
    assert len(children(tracking, "small")[1]) == 2
    listed = json.loads(dmltune("jobs", "list", "--address", head, "-f", "json").stdout)
    assert [job["name"] for job in listed] == ["small", "small"]
    assert listed[1]["job_id"] == document["job_id"]
    state = json.loads(dmltune("jobs", "status", "small", "--address", head, "-f", "json").stdout)
    assert state["result"]["winner"] == document["result"]["winner"]
    log = dmltune("jobs", "logs", document["job_id"], "-f", "--address", head)
    assert log.returncode == 0
    assert "validation classes" in log.stdout


@pytest.mark.timeout(900)
def test_ctrl_c_leaves_the_job_alone_and_jobs_stop_leaves_a_search_that_resumes(
    head: str, servers: tuple[str, str], dmltune: Run, tmp_path: Path
) -> None:
    tracking, studies = servers
    path = job_file(tmp_path, name="stopped", tracking=tracking, studies=studies, overrides=LONG)
    store = str(tmp_path / "runs")
    submit = ["submit", str(path), "--address", head, "--store", store]
    process = subprocess.Popen(
        [sys.executable, "-m", "dmltune", *submit],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stdout is not None
        job_id = process.stderr.readline().split()[1]
        wait_for_line(process.stdout, r"step [1-9]\d*/")
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    except BaseException:
        dmltune("jobs", "stop", "stopped", "--address", head, seconds=200)
        raise
    finally:
        process.kill()
    assert process.returncode == 130
    assert "the job goes on" in message
    assert f"dmltune jobs logs {job_id} --address {head} -f" in message
    state = dmltune("jobs", "status", job_id, "--address", head, "-f", "json")
    assert json.loads(state.stdout)["status"] == "RUNNING"
    ended = dmltune("jobs", "stop", "stopped", "--address", head, "-f", "json", seconds=200)
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert (document["status"], document["stopped"]) == ("STOPPED", True)
    assert document["result"]["reason"] == "stopped", "the driver had the time to end in order"
    parent, trials = children(tracking, "stopped")
    assert parent.info.status == "KILLED"
    assert {run.info.status for run in trials} <= {"KILLED", "FINISHED"}
    log = dmltune("jobs", "logs", "stopped", "--address", head).stdout
    assert "stopped before its end; finished trials are kept" in log
    shown = dmltune("jobs", "stop", "stopped", "--address", head).stdout
    (command,) = [line.strip() for line in shown.splitlines() if line.strip().startswith("dmltune submit")]
    assert command.startswith(f"dmltune submit {path} --address {head} --name stopped --store {store}")
    resumed = dmltune(*command.split()[1:], "--no-wait", "-f", "json")
    assert resumed.returncode == 0, resumed.stderr
    again = json.loads(resumed.stdout)["job_id"]
    before = document["result"]["reference"]
    step = wait_for_log(dmltune, again, head, rf"trial {before['number']} .*: step (\d+)/")
    assert int(step) >= before["step"] > 0, "it goes on from its checkpoint"
    assert dmltune("jobs", "stop", again, "--address", head, seconds=200).returncode == 0
    assert len(children(tracking, "stopped")[1]) == len(trials), "the same trials went on"


def wait_for_line(stream: Any, pattern: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        line = stream.readline()
        if re.search(pattern, line):
            return
        assert line, "the log ended"
    raise AssertionError(f"no line with {pattern}")


def wait_for_log(dmltune: Run, job: str, head: str, pattern: str) -> str:
    """Return what the first group of the pattern matches in the log of the command."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        log = dmltune("jobs", "logs", job, "--address", head).stdout
        if found := re.search(pattern, log):
            return found[1]
        time.sleep(1)
    raise AssertionError(f"no line with {pattern}")


@pytest.mark.timeout(300)
def test_the_exit_code_of_a_job_that_fails_is_ours(head: str, dmltune: Run, tmp_path: Path) -> None:
    path = job_file(
        tmp_path, space="cub-lite-ccp", overrides=[], data_root="/nowhere/on/the/cluster", retries=3
    )
    done = dmltune("submit", str(path), "--address", head, "--store", str(tmp_path / "runs"), seconds=250)
    assert done.returncode == 2
    assert "/nowhere/on/the/cluster" in done.stdout
    assert "attempt 2" not in done.stdout, "a mistake of the user is not tried again"
    assert "failed" in done.stderr


@pytest.mark.timeout(120)
def test_a_job_that_does_not_fit_is_one_line_before_anything_is_uploaded(
    head: str, dmltune: Run, tmp_path: Path
) -> None:
    before = dmltune("jobs", "list", "--all", "--address", head, "-f", "json").stdout
    path = job_file(tmp_path, resources={"gpus": 1}, store=str(tmp_path))
    for words in ((), ("--dry-run",)):
        done = dmltune("submit", str(path), "--address", head, *words)
        assert done.returncode == 2
        assert done.stderr == (
            "the job needs 1 GPU; the cluster has no node with GPU. Lower resources, or add a node.\n"
        )
    assert dmltune("jobs", "list", "--all", "--address", head, "-f", "json").stdout == before


@pytest.mark.timeout(120)
def test_a_dry_run_shows_command_environment_and_uploads_and_submits_nothing(
    head: str, dmltune: Run, tmp_path: Path
) -> None:
    path = job_file(tmp_path, tracking="https://mlflow.example.org", resources={"cpus": 0.5}, name="dry")
    words = ("submit", str(path), "--address", head, "--store", "s3://bucket/runs", "--dry-run")
    plan = json.loads(dmltune(*words, "-f", "json").stdout)
    assert plan["environment"]["MLFLOW_TRACKING_URI"] == "https://mlflow.example.org"
    assert plan["concurrent"] == 4, "two CPUs hold four workers with half a CPU each"
    assert [upload["what"] for upload in plan["uploads"]] == ["glyphs-ccp.yaml", "the package dmltune"]
    assert all(upload["bytes"] > 100 for upload in plan["uploads"])
    assert "--store s3://bucket/runs" in plan["command"]
    assert plan["cluster"]["nodes"][0]["CPU"] == 2
    assert plan["cluster"]["grows"] is False
    assert "dry" not in dmltune("jobs", "list", "--address", head).stdout


@pytest.mark.timeout(200)
def test_without_the_cluster_s_token_each_command_says_it_in_one_line(
    head: str, dmltune: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(secrets.token_hex(32), encoding="utf-8")
    path = job_file(tmp_path, store=str(tmp_path))
    usual = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    cases = (
        ({"HOME": str(tmp_path)}, "wants a token, and there is none here. Set RAY_AUTH_TOKEN_PATH"),
        ({"HOME": str(tmp_path), "RAY_AUTH_TOKEN_PATH": str(wrong)}, f"refuses the token of {wrong}"),
    )
    for environment, says in cases:
        for words in (("submit", str(path)), ("jobs", "list")):
            done = subprocess.run(
                [sys.executable, "-m", "dmltune", *words, "--address", head],
                capture_output=True, text=True, env=usual | environment, timeout=100, check=False,
            )  # fmt: skip
            assert done.returncode == 2
            assert says in done.stderr
            assert len(done.stderr.splitlines()) == 1


@pytest.mark.timeout(200)
def test_a_token_in_the_home_folder_is_used_without_any_setting(
    head: str, token: Path, tmp_path: Path
) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(token.read_text())
    usual = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-m", "dmltune", "jobs", "list", "--address", head],
        capture_output=True, text=True, env=usual | {"HOME": str(tmp_path)}, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(200)
def test_a_search_on_a_cluster_with_a_token_and_none_here_is_one_line(head: str, tmp_path: Path) -> None:
    usual = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    words = ["search", "glyphs-ccp", *QUICK, "--trials", "2", "--store", str(tmp_path / "runs")]
    done = subprocess.run(
        [sys.executable, "-m", "dmltune", *words, "--address", os.environ["TEST_GCS"]],
        capture_output=True, text=True, env=usual | {"HOME": str(tmp_path)}, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "token" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
