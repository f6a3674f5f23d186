"""What a job file becomes, without a cluster."""

from __future__ import annotations

import io
from argparse import Namespace
from pathlib import Path

import pytest

from dmltune.cli.job_log import JobLog, hints
from dmltune.cli.submission import Submission, store_of, with_options, write_space
from dmltune.errors import UserError
from dmltune.experiment import Job, load_experiment


def submitted(job: Job, address: str = "http://head:8265") -> Submission:
    return Submission(job, "jobs/x.yaml", address, "n", "glyphs-ccp", load_experiment("glyphs-ccp"), "/runs")


def test_the_space_goes_along_as_one_flat_file(tmp_path: Path) -> None:
    experiment = load_experiment("glyphs-ccp", ["max_steps=100"])
    write_space(experiment.to_dict(), tmp_path / "flat.yaml")
    assert "extends" not in (tmp_path / "flat.yaml").read_text(encoding="utf-8")
    assert load_experiment(tmp_path / "flat.yaml") == experiment


def test_the_command_of_a_job_says_everything_the_job_says() -> None:
    needs = {"cpus": 2.0, "gpus": 0.5, "memory": "8GiB", "custom": {"licence": 1.0}}
    job = Job.model_validate(
        {"space": "glyphs-ccp", "trials": 3, "time": "1h", "cost": "8h", "concurrent": 1, "retries": 2}
        | {"data_root": "/my data", "resources": needs}
    )
    assert submitted(job).entrypoint() == (
        "python -m dmltune.cluster.driver --retries 2 -- search glyphs-ccp.yaml --data-root '/my data'"
        " --store /runs --trials 3 --time 1h --cost 8h --name n --concurrent 1 --cpus-per-worker 2"
        " --gpus-per-worker 0.5 --memory-per-worker 8GiB --resource-per-worker licence=1 --address auto"
    )


def test_a_job_on_photos_of_the_cluster_takes_its_folder_and_overrides() -> None:
    job = Job.model_validate({"data": "/photos/my birds", "overrides": ["max_steps=30"]})
    command = Submission(job, "j.yaml", "http://head:8265", "birds", "birds", None, "s3://b/r").entrypoint()
    assert "search max_steps=30 --data '/photos/my birds'" in command


def test_the_package_is_shipped_unless_the_job_says_no(tmp_path: Path) -> None:
    job = Job.model_validate({"space": "s", "runtime_env": {"env_vars": {"A": "1"}}, "pip": ["x"]})
    shipped = submitted(job).runtime_env(tmp_path)
    assert Path(shipped["py_modules"][0]).name == "dmltune"
    assert shipped["env_vars"]["A"] == "1"
    assert shipped["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"] == "120", "Ray's 3 s would kill a search midway"
    assert shipped["pip"] == ["x"]
    assert shipped["working_dir"] == str(tmp_path)
    assert "py_modules" not in submitted(Job(space="s", ship=False)).runtime_env(tmp_path)


def test_addresses_of_servers_are_the_driver_s_environment_and_hold_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    options = Namespace(
        store=None, tracking="https://mlflow.example.org", studies=None, data_root=None, trials=7
    )
    job = with_options(Job(space="s", studies="postgresql+psycopg2://dmltune@db/optuna"), options)
    environment = submitted(job).environment()
    assert environment["MLFLOW_TRACKING_URI"] == "https://mlflow.example.org"
    assert environment["DMLTUNE_OPTUNA_STORAGE"] == "postgresql+psycopg2://dmltune@db/optuna"
    assert job.trials == 7
    secret = Namespace(**vars(options) | {"studies": "postgresql://dmltune:geheim77@db/optuna"})
    with pytest.raises(UserError, match="PGPASSFILE") as caught:
        with_options(Job(space="s"), secret)
    assert "geheim77" not in str(caught.value)


def test_a_store_that_would_end_with_the_job_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_STORE", raising=False)
    remote, local = "http://head:8265", "http://127.0.0.1:8265"
    assert store_of(Job(space="s", store="/shared"), remote) == "/shared"
    assert store_of(Job(space="s", store="s3://bucket/runs"), remote) == "s3://bucket/runs"
    assert store_of(Job(space="s"), local) == str(tmp_path / "mlruns")
    for store in (None, "runs"):
        with pytest.raises(UserError, match="outlives"):
            store_of(Job(space="s", store=store), remote)


def test_the_marked_result_is_taken_out_of_a_log_that_comes_in_pieces() -> None:
    shown = io.StringIO()
    log = JobLog(shown)
    text = 'step 1\ndmltune is here\ndmltune-result {"winner":{"best":0.5}}\nlast\td'
    for character in text:
        log.write(character)
    log.close()
    assert log.result == {"winner": {"best": 0.5}}
    assert shown.getvalue() == "step 1\ndmltune is here\nlast" + " " * 4 + "d"


def test_hints_name_only_what_works_where_they_are_read(tmp_path: Path) -> None:
    job = {"dmltune_search": "n", "dmltune_store": "/not/here", "dmltune_command": "dmltune submit j.yaml"}
    won = {"winner": {"best": 0.5}}
    assert hints("id", job, "http://h:1", result=None) == ["it continues with", "  dmltune submit j.yaml"]
    assert hints("id", job, "http://h:1", result=won)[0].startswith("its models and runs are on the cluster")
    served = hints("id", job | {"dmltune_tracking": "https://m"}, "http://h:1", result=won)
    assert served == ["next:", "  MLFLOW_TRACKING_URI=https://m dmltune ui n"]
    here = hints("id", job | {"dmltune_store": str(tmp_path)}, "http://h:1", result=won)
    assert here[-2:] == [
        f"  dmltune evaluate n --split test --store {tmp_path}",
        f"  dmltune check n --store {tmp_path}",
    ]
