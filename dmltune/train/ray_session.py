"""The Ray that trials run on: a private one on loopback, or an existing cluster.

A local Ray listens on 127.0.0.1 only, keeps its files in one private temporary folder, and is removed at the
end. A driver that was killed leaves only that folder behind (its Ray processes die with it); the next local
start removes it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dmltune.errors import UserError
from dmltune.resources import Resources
from dmltune.scratch import process_folder, remove_stale_folders
from dmltune.train.cluster_address import is_loopback_only, require_cluster
from dmltune.train.head_watch import given_up_after
from dmltune.train.lean_ray import lean_ray
from dmltune.worker_resources import described, room

_RAY_FOLDER = "r"  # short, for the paths of sockets
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a user's data stays on the user's machines
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.25",  # start-up polls at this rate; the default is 2 s
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # no boxes of Tune's between our lines
    "RAY_worker_maximum_startup_concurrency": "32",  # a worker group is several small processes
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # our own tracking replaces CSV, JSON and TensorBoard files
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a failed trial has no score
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # a resume reads the study, not Tune's snapshot
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "30",
}
_ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # in spite of its name
_LOCAL_ENVIRONMENT = {
    _ONE_MACHINE: "0",  # sockets on 127.0.0.1
    "RAY_ADDRESS": "",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",  # for Ray's dashboard; ours are in MLflow
}


@dataclass(frozen=True)
class RaySession:
    """What the driver is connected to, and what it may use."""

    local: bool
    namespace: str
    scratch: Path
    cpus: int
    gpus: int
    nodes: tuple[Mapping[str, float], ...] = ()  # what each node has, in Ray's names
    grows: bool = False  # an autoscaler adds nodes when they are asked for


@contextlib.contextmanager
def ray_session(address: str | None) -> Iterator[RaySession]:
    """Connect to `address` ($RAY_ADDRESS, an initialised Ray), else start a local Ray and remove it again."""
    address = address or os.environ.get("RAY_ADDRESS") or None
    given_up_after()  # before Ray reads it
    require_cluster(address)
    place = _short_temporary_folder()
    remove_stale_folders(place)
    with (
        process_folder("ray", place) as scratch,
        _environment(_ENVIRONMENT | _own_environment(address, scratch)),
    ):
        import ray

        started_here = not ray.is_initialized()
        if started_here:
            _start(address, scratch / _RAY_FOLDER)
        try:
            yield _describe(address, scratch)
        finally:
            if started_here:
                ray.shutdown()


def _own_environment(address: str | None, scratch: Path) -> dict[str, str]:
    """Return what a Ray on this machine alone is told, after making its folder and its token."""
    # Ray makes its own folder world-writable, so it lies inside this private one, and the token beside it.
    ray_folder, token = scratch / _RAY_FOLDER, scratch / "token"
    ray_folder.mkdir(mode=0o700)
    with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_token())
    if address:
        return {_ONE_MACHINE: "0"} if is_loopback_only(address) else {}
    private = {
        "RAY_TMPDIR": str(ray_folder),
        "TMPDIR": str(ray_folder),  # what workers leave is removed with the folder
        "RAY_AUTH_MODE": "",  # unset, Ray switches tokens on by itself, whenever it was imported
        "RAY_AUTH_TOKEN": "",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }
    return _LOCAL_ENVIRONMENT | private


@cache
def _token() -> str:
    """Return one token for this process: Ray reads it once and remembers it."""
    return secrets.token_hex(32)


def _start(address: str | None, ray_folder: Path) -> None:
    import ray
    import ray._private.ray_constants as constants
    import ray._private.worker as ray_worker

    # Ray may have been imported before the environment was set
    constants.ENABLE_RAY_CLUSTER = os.environ.get(_ONE_MACHINE, "1") not in ("0", "false")
    verbose = bool(os.environ.get("DMLTUNE_DEBUG"))
    shared: dict[str, Any] = {
        "namespace": f"dmltune-{uuid.uuid4().hex[:8]}",
        "log_to_driver": verbose,
        "logging_level": logging.INFO if verbose else logging.ERROR,
    }
    if not verbose:
        for name in ("ray", "ray.tune", "ray.train"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    ray_worker._worker_logs_enabled = verbose  # else Ray prints warnings between our lines
    if address:
        from ray.exceptions import AuthenticationError

        try:
            ray.init(address=address, **shared)
        except AuthenticationError as error:
            raise UserError(
                f"the cluster at {address} wants a token: {str(error).splitlines()[0]} "
                "Name the file that holds it with RAY_AUTH_TOKEN_PATH."
            ) from None
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UserError(
                f"no Ray cluster answers at {address}: {str(error).splitlines()[0]} "
                "Check --address, or leave it out to search on this machine."
            ) from None
        return
    try:
        with lean_ray(logs=verbose):
            ray.init(
                address="local",
                num_cpus=usable_cores(),
                include_dashboard=False,
                object_store_memory=256 * 2**20,  # nothing big goes through it
                _temp_dir=str(ray_folder),
                **shared,
            )
    except Exception as error:  # Ray has no class for it: too slow, too little memory, no free port
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise UserError(
            f"Ray did not start on this machine ({reason}). Is it overloaded, or short of memory? "
            "The same command tries again."
        ) from error


def _describe(address: str | None, scratch: Path) -> RaySession:
    import ray

    total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    context = ray.get_runtime_context()
    here: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    local = not address and here == "127.0.0.1"
    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return RaySession(
        local,
        context.namespace,
        scratch,
        int(total.get("CPU", 0)),
        int(total.get("GPU", 0)),
        nodes=tuple(node["Resources"] for node in alive),
        grows=not local and _grows(),
    )


def _grows() -> bool:
    """Return whether an autoscaler is there that can add nodes."""
    from ray._private import ray_constants
    from ray.experimental import internal_kv

    with contextlib.suppress(Exception):  # internal to Ray; without an answer the cluster stays as it is
        status = internal_kv._internal_kv_get(ray_constants.DEBUG_AUTOSCALING_STATUS)
        if status and json.loads(status).get("autoscaler_report"):
            return True
        from ray.autoscaler.v2.utils import is_autoscaler_v2

        return bool(is_autoscaler_v2())
    return False


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(cores: int) -> int:
    """Return how many threads to use on so many cores; OMP_NUM_THREADS is the limit, as on a shared
    machine."""
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, min(cores, int(limit))) if limit.isdigit() and int(limit) else max(1, cores)


@dataclass(frozen=True)
class ResourcePlan:
    """How many trials run at a time, and how wide each is."""

    concurrent: int
    workers: int
    threads: int
    use_gpu: bool
    request: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1.0})  # of one worker


def plan_resources(session: RaySession, resources: Resources) -> ResourcePlan:
    """Return as many worker groups as the nodes have room for.

    Threads share the cores: two 2-thread trials on 2 cores run at a sixth of the speed of 1-thread ones.
    """
    workers = resources.workers
    nodes = session.nodes or ({"CPU": float(session.cpus), "GPU": float(session.gpus)},)
    request = resources.per_worker.request(session.gpus > 0)
    available = room(nodes, request)
    groups = resources.concurrent or max(1, available // workers)
    if groups * workers > available and not session.grows:
        raise UserError(_too_many(groups, workers, request, available))
    cores = int(request.get("CPU", 0)) if resources.per_worker.cpus else session.cpus // (groups * workers)
    return ResourcePlan(groups, workers, threads_of(cores), "GPU" in request, request)


def _too_many(groups: int, workers: int, request: Mapping[str, float], available: int) -> str:
    wanted = f"{groups} trials at a time × {workers} workers need {groups * workers}"
    if list(request.values()) == [1.0]:
        (unit,) = request
        rule = f"{wanted} {unit}s; there are {available} of them."
    else:
        rule = f"{wanted} times {described(request)}; there is room for {available} such workers."
    if available == 0:
        return f"{rule} Ask for less of each worker, or choose another --address."
    use = f"--concurrent {max(1, available // workers)} or --workers {max(1, available // groups)}"
    return f"{rule} Use {use}."


def _short_temporary_folder() -> str:
    """Return a folder for Ray's sockets, whose paths may have 107 characters at most.

    FOLDER/dmltune-ray-PID-xxxxxxxx/r/session_DATE_TIME_MICROSECONDS_PID/sockets/plasma_store: with process
    ids of seven digits, 95 of them are not the folder's.
    """
    usual = tempfile.gettempdir()
    return usual if len(usual) <= 107 - 95 else "/tmp"


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    for name, value in values.items():
        if value:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old
