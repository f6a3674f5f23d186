"""What a job file becomes: the command on the head, its environment, and what is uploaded."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.experiment_choice import default_name, name_of_data, space_name
from dmltune.cli.parser import command_line, duration
from dmltune.cluster.dashboard import on_this_machine
from dmltune.errors import UserError
from dmltune.store import without_password

if TYPE_CHECKING:
    from dmltune.experiment import Experiment, Job

# How long Ray waits between SIGTERM and SIGKILL when a job is stopped. Its own 3 s end a search midway.
STOP_WAIT_S = 120
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PYTHONUNBUFFERED": "1",
    "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S),
}
JOB_COMMAND = "DMLTUNE_JOB_COMMAND"  # what continues the search, typed where it was submitted


@dataclass(frozen=True)
class Submission:
    """`job` with the options of the command line; `file` is the space as one flat YAML (none for `data`)."""

    job: Job
    source: str
    address: str
    name: str
    space: str
    experiment: Experiment | None
    store: str

    @property
    def file(self) -> str | None:
        return None if self.experiment is None else f"{self.space}.yaml"

    def continue_command(self) -> str:
        """Return the command that submits the same search again."""
        parts = ["dmltune", "submit", self.source, "--address", without_password(self.address)]
        parts += ["--name", self.name, "--store", self.store]
        for option, value in (("--tracking", self.job.tracking), ("--studies", self.job.studies)):
            parts += [] if value is None else [option, value]
        return shlex.join(parts)

    def environment(self) -> dict[str, str]:
        """Return the variables of the driver; those that the job names win."""
        addresses = {"MLFLOW_TRACKING_URI": self.job.tracking, "DMLTUNE_OPTUNA_STORAGE": self.job.studies}
        named = {variable: value for variable, value in addresses.items() if value is not None}
        own: dict[str, str] = self.job.runtime_env.get("env_vars", {})
        return QUIET | named | {JOB_COMMAND: self.continue_command()} | own

    def runtime_env(self, folder: Path) -> dict[str, Any]:
        """Return Ray's runtime environment: the space in `folder`, the package, and what the job adds."""
        environment = dict(self.job.runtime_env)
        environment["env_vars"] = self.environment()
        if self.job.pip:
            environment["pip"] = list(self.job.pip)
        if self.experiment is not None:
            environment["working_dir"] = str(write_space(self.experiment.to_dict(), folder / self.file_name))
        if self.job.ship:
            environment["py_modules"] = [str(package()), *environment.get("py_modules", [])]
            environment.setdefault("excludes", ["**/__pycache__/**"])
        return environment

    @property
    def file_name(self) -> str:
        return self.file or ""

    def entrypoint(self, python: str | None = None, address: str = "auto", file: str | None = None) -> str:
        """Return the command of the job. --address auto is the cluster that it runs in."""
        python = python or python_of(self.address)
        parts = search_command(self, address, file).removeprefix("dmltune ")
        driver = f"{shlex.quote(python)} -m dmltune.cluster.driver --retries {self.job.retries} --"
        return f"{driver} {parts}"

    def metadata(self) -> dict[str, str]:
        """Return what `dmltune jobs` knows of the job."""
        found = {
            "dmltune_search": self.name,
            "dmltune_space": self.space,
            "dmltune_store": self.store,
            "dmltune_tracking": self.job.tracking,
            "dmltune_studies": self.job.studies,
            "dmltune_command": self.continue_command(),
        }
        return {key: value for key, value in found.items() if value is not None}

    def uploads(self, folder: Path) -> list[tuple[str, int]]:
        """Return what would be uploaded, with its bytes."""
        found = []
        if self.experiment is not None:
            written = write_space(self.experiment.to_dict(), folder / self.file_name)
            found.append((self.file_name, (written / self.file_name).stat().st_size))
        if self.job.ship:
            files = [
                file for file in package().rglob("*") if file.is_file() and "__pycache__" not in file.parts
            ]
            found.append(("the package dmltune", sum(file.stat().st_size for file in files)))
        return found


def submission(job: Job, source: str, args: argparse.Namespace, kubernetes: bool = False) -> Submission:
    """Return what would be submitted; every mistake of the job, its space and its places is a UserError."""
    from dmltune.experiment import load_experiment

    experiment = None
    if job.space is not None:
        try:
            experiment = load_experiment(job.space, job.overrides)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None
        space = space_name(job.space)
    else:
        space = name_of_data(Path(job.data or ""))
    name = args.name or job.name or default_name(space)
    store = job.store if kubernetes else store_of(job, args.address)
    return Submission(job, source, args.address, name, space, experiment, store or "")


def with_options(job: Job, args: argparse.Namespace) -> Job:
    """Return the job with what the command line says."""
    from dmltune.experiment.job import require_no_secret
    from dmltune.experiment.problems import Problem

    given: dict[str, Any] = {
        "store": args.store,
        "tracking": args.tracking or job.tracking or os.environ.get("MLFLOW_TRACKING_URI") or None,
        "studies": args.studies or job.studies or os.environ.get("DMLTUNE_OPTUNA_STORAGE") or None,
        "data_root": None if args.data_root is None else str(args.data_root),
        "trials": args.trials,
    }
    for key in ("store", "tracking", "studies"):
        try:
            require_no_secret(f"--{key}", given[key])
        except Problem as problem:
            raise UserError(str(problem)) from None
    return job.model_copy(update={key: value for key, value in given.items() if value is not None})


def search_command(submitted: Submission, address: str, file: str | None) -> str:
    """Return `dmltune search …` with everything that the job says."""
    from dmltune.cli import parser_of

    job, needs = submitted.job, submitted.job.resources
    space = file or submitted.file
    args = parser_of("search").parse([space] if space else ["--data", job.data or ""])
    changes = {
        "overrides": [] if space else job.overrides,
        "name": submitted.name,
        "trials": job.trials,
        "time": None if job.time is None else duration(job.time),
        "cost": None if job.cost is None else duration(job.cost),
        "workers": job.workers,
        "concurrent": job.concurrent,
        "cpus_per_worker": _short(needs.cpus),
        "gpus_per_worker": _short(needs.gpus),
        "memory_per_worker": needs.memory,
        "resource_per_worker": [f"{name}={amount:g}" for name, amount in needs.custom.items()],
        "data_root": job.data_root,
        "store": submitted.store or None,
        "address": address,
    }
    return command_line(args, **changes)


def _short(amount: float | None) -> str | None:
    return None if amount is None else f"{amount:g}"


def store_of(job: Job, address: str) -> str:
    """Return an address, or an absolute folder of the head node; a relative one is for this machine only."""
    requested = job.store
    if requested is not None and ("://" in requested or Path(requested).expanduser().is_absolute()):
        return requested if "://" in requested else str(Path(requested).expanduser())
    if not on_this_machine(address):
        raise UserError(
            f"a job on {without_password(address)} needs a store that outlives it, an address such as "
            f"s3://bucket/runs or an absolute folder of the head node; got {requested or 'none'}. "
            "Use --store /shared/mlruns, or store: in the job."
        )
    return str(Path(requested or os.environ.get("DMLTUNE_STORE") or "mlruns").absolute())


def python_of(address: str) -> str:
    """Return this interpreter for a cluster on this machine (it may not be activated), else the head's."""
    return sys.executable if on_this_machine(address) else "python"


def package() -> Path:
    import dmltune

    return Path(dmltune.__path__[0])


def write_space(tree: dict[str, Any], path: Path) -> Path:
    """Write one flat YAML file without `extends`; return its folder."""
    path.write_text(space_text(tree), encoding="utf-8")
    return path.parent


def space_text(tree: dict[str, Any]) -> str:
    import io

    from ruamel.yaml import YAML

    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    stream = io.StringIO()
    writer.dump(tree, stream)
    return stream.getvalue()
