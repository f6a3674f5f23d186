"""`dmltune submit`: the same search on a cluster, as a Ray job.

The space is resolved here: the cluster gets one flat file and the code of this machine.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dmltune.cli.experiment_choice import default_name, space_name
from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, command_line, duration
from dmltune.errors import UserError, readable
from dmltune.store import without_password

if TYPE_CHECKING:
    from dmltune.experiment import Job

SUMMARY = "run a job file's search on a Ray cluster, follow its log, return its exit code"
EXAMPLES = """\
  dmltune submit jobs/glyphs-ccp.yaml                            Ray on this machine (ray start --head)
  dmltune submit jobs/cub-ccp.yaml --address http://head:8265 --store /shared/mlruns
"""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "job", metavar="JOB", help="a YAML file with space, name, trials, time, workers, store, …"
    )
    parser.add_argument(
        "--address",
        default=os.environ.get("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:8265"),
        metavar="http://HOST:8265",
        help="the cluster's dashboard (default: $RAY_API_SERVER_ADDRESS, else this machine's)",
    )
    parser.add_path("--store", "a folder that the head node can write and that outlives the job")
    parser.add_path("--data-root", "where the images lie on the cluster")
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.job_log import connect, follow, start
    from dmltune.experiment import load_experiment, load_job

    require_dashboard_address(args.address)
    job = load_job(args.job)
    try:
        experiment = load_experiment(job.space, job.overrides)
    except UserError as error:
        raise UserError(f"{args.job}: {error}") from None
    store = store_of(job, args)
    space = space_name(job.space)
    name = job.name or default_name(space)
    client = connect(args.address)
    with tempfile.TemporaryDirectory(prefix="dmltune-job-") as folder:
        file = write_space(experiment.to_dict(), Path(folder) / f"{space}.yaml")
        job_id = start(
            client,
            entrypoint=entrypoint(job, python_of(args.address), name, file.name, store, args.data_root),
            runtime_env=runtime_env(job, Path(folder)),
            metadata={"dmltune_search": name},
        )
    return follow(client, job_id, args.address, store, name, out)


def require_dashboard_address(address: str) -> None:
    """Raise a UserError unless `address` is http://HOST:PORT and can be put into a request."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        http.client.HTTPConnection(parts.netloc.rpartition("@")[2])  # the port is a number
        good = good and len(address) <= 1000 and address.isprintable() and " " not in address
    except (ValueError, http.client.InvalidURL):
        good = False
    if not good:
        shown = readable(without_password(address))
        raise UserError(f"--address must be the dashboard's, such as http://head:8265; got {shown}")


def store_of(job: Job, args: argparse.Namespace) -> str:
    """Return an absolute folder as the head node sees it; a relative one is allowed on this machine only."""
    requested = args.store or job.store
    if requested is not None and Path(requested).expanduser().is_absolute():
        return str(Path(requested).expanduser())
    if not on_this_machine(args.address):
        raise UserError(
            f"a job on {without_password(args.address)} needs a store that outlives it, an absolute folder "
            f"of the head node; got {requested or 'none'}. Use --store /shared/mlruns, or store: in the job."
        )
    return str(Path(requested or os.environ.get("DMLTUNE_STORE") or "mlruns").absolute())


def on_this_machine(address: str) -> bool:
    return urlsplit(address).hostname in LOOPBACK


def python_of(address: str) -> str:
    """Return this interpreter for a cluster on this machine (it may not be activated), else the head's."""
    return sys.executable if on_this_machine(address) else "python"


def write_space(tree: dict[str, Any], path: Path) -> Path:
    """Write one flat YAML file without `extends`."""
    from ruamel.yaml import YAML

    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    with path.open("w", encoding="utf-8") as stream:
        writer.dump(tree, stream)
    return path


def entrypoint(job: Job, python: str, name: str, file: str, store: str, data_root: Path | None) -> str:
    """Return the command of the job; --address auto is the cluster that it runs in."""
    from dmltune.cli import parser_of

    args = parser_of("search").parse([file])
    changes = {
        "name": name,
        "trials": job.trials,
        "time": None if job.time is None else duration(job.time),
        "workers": job.workers,
        "concurrent": job.concurrent,
        "data_root": data_root or job.data_root,
        "store": store,
        "address": "auto",
    }
    command = command_line(args, **changes)
    return f"{shlex.quote(python)} -m {command}"


def runtime_env(job: Job, folder: Path) -> dict[str, Any]:
    """Return the flat space as working directory, the package as a module, and what the job adds."""
    import dmltune

    environment = dict(job.runtime_env)
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONUNBUFFERED": "1"}
    environment["env_vars"] = quiet | environment.get("env_vars", {})
    environment["working_dir"] = str(folder)
    if job.ship:
        package = str(Path(dmltune.__path__[0]))
        environment["py_modules"] = [package, *environment.get("py_modules", [])]
    return environment
