"""A cluster job: one YAML file that says what is searched, with which budget and resources, and where.

Nothing in it is secret: a job's file, command and environment are shown by Ray's dashboard.
"""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment.files import places
from dmltune.experiment.files.document import read_document
from dmltune.experiment.problems import Problem, kind_of, problem_of, show
from dmltune.experiment.schema.sections import Count, Section
from dmltune.store import is_name, without_password
from dmltune.worker_resources import WorkerResources, memory_bytes

JOBS = "jobs"
MAX_RETRIES = 20
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([dhms])"  # as --time has it
_TIME = re.compile(rf"(?=.*[1-9])(?=.{{1,60}}$)(?:{_PART})+", re.ASCII)
LONGEST_KEEP_S = 2**31 - 1  # what Kubernetes takes
_SECRET = re.compile(r"[?&][^=&]*(pass|secret|token|key|credential)[^=&]*=", re.IGNORECASE)
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _override(text: str) -> str:
    if "=" not in text.strip("="):
        raise ValueError("an override is key=value, such as max_steps=300")
    return text


def _search_name(text: str) -> str:
    if not is_name(text):
        raise ValueError("it must be letters, digits, '.', '_' or '-', at most 100")
    return text


def _ray_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """Validate the two entries that dmltune adds to; Ray validates the rest."""
    variables, modules = environment.get("env_vars", {}), environment.get("py_modules", [])
    if not isinstance(variables, dict) or not all(isinstance(text, str) for text in variables.values()):
        raise ValueError("env_vars must be a mapping of texts; quote its values")
    if not isinstance(modules, list) or not all(isinstance(text, str) for text in modules):
        raise ValueError("py_modules must be a list of texts")
    return environment


def _memory(text: str) -> str:
    memory_bytes(text)
    return text


def _kubernetes_name(text: str) -> str:
    if not _KUBERNETES_NAME.fullmatch(text):
        raise ValueError("a name in Kubernetes has small letters, digits and '-', at most 63")
    return text


def holds_secret(address: str) -> bool:
    """Return whether an address has a password, which would be in the job's records."""
    try:
        return urlsplit(address).password is not None or _SECRET.search(address) is not None
    except ValueError:
        return True


def _duration(text: str) -> str:
    if not _TIME.fullmatch(text) or seconds_of(text) > LONGEST_KEEP_S:
        raise ValueError("write a time such as 90s, 30m or 1h30m, at most 24855d")
    return text


def seconds_of(duration: str) -> float:
    """Return the seconds of `1h30m`."""
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, duration))


def _concurrent(value: Any) -> Any:
    return None if value == "auto" else value


Text = Annotated[str, Field(min_length=1)]
Memory = Annotated[str, AfterValidator(_memory)]
Amount = Annotated[float, Field(ge=0, le=1e6)]
Positive = Annotated[float, Field(gt=0, le=1e6)]
KubernetesName = Annotated[str, AfterValidator(_kubernetes_name)]
AsList = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


class PerWorker(Section):
    """What one worker process needs. `gpus: 0.5` lets two trials share a GPU."""

    cpus: Amount | None = None
    gpus: Amount | None = None
    memory: Memory | None = None
    custom: dict[str, Positive] = {}

    def value(self) -> WorkerResources:
        memory = None if self.memory is None else memory_bytes(self.memory)
        return WorkerResources(self.cpus, self.gpus, memory, self.custom)


class KubeRay(Section):
    """The pods of a RayJob. `nodes` is the most worker pods, `nodes_at_least` what always runs.

    `cpus`, `memory` and `gpus` are those of a worker pod. `claim` names a PersistentVolumeClaim, mounted at
    `mount`; the keys of the Secret `secret` become environment variables of every pod; `token_secret` holds
    Ray's token (none: KubeRay makes one for each cluster).
    """

    namespace: KubernetesName | None = None
    nodes: Count = 2
    nodes_at_least: Annotated[int, Field(ge=0)] = 0
    cpus: Count = 4
    memory: Memory = "8Gi"
    gpus: Annotated[int, Field(ge=0)] = 0
    head_cpus: Count = 2
    head_memory: Memory = "8Gi"
    claim: KubernetesName | None = None
    mount: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]+$")] = "/shared"
    secret: KubernetesName | None = None
    token_secret: KubernetesName | None = None
    keep: Annotated[str, AfterValidator(_duration)] = "10m"
    pull: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"


class Job(Section):
    """`time` and `cost` are durations such as 1h30m, `resources` are those of one worker, `retries` starts a
    driver that was lost again, `runtime_env` goes to Ray, `ship` uploads this package too."""

    about: str = ""
    space: Text | None = None
    data: Text | None = None
    name: Annotated[str, AfterValidator(_search_name)] | None = None
    trials: Count | None = None
    time: str | None = None
    cost: str | None = None
    workers: Count = 1
    concurrent: Annotated[Count | None, BeforeValidator(_concurrent)] = None
    resources: PerWorker = PerWorker()
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 0
    overrides: Annotated[list[Annotated[str, AfterValidator(_override)]], AsList] = []
    data_root: Text | None = None
    store: Text | None = None
    tracking: Text | None = None
    studies: Text | None = None
    image: Text | None = None
    pip: Annotated[list[Text], AsList] = []
    runtime_env: Annotated[dict[str, Any], AfterValidator(_ray_environment)] = {}
    ship: bool = True
    kuberay: KubeRay | None = None


def load_job(name_or_path: str | File) -> Job:
    """Load a job by its name in `jobs/` or from a YAML file; every mistake is one UserError line."""
    file = places.find_file(name_or_path, JOBS, "job")
    shown = places.shown(file)
    document = read_document(file, shown)
    nothing = ("overrides", "runtime_env", "pip", "resources")
    empty = [key for key in nothing if document.tree.get(key, 0) is None]
    try:
        for key in ("time", "cost"):
            _validate_time(key, document.tree.get(key))
        job = Job.model_validate({key: document.tree[key] for key in document.tree if key not in empty})
        _validate_together(job)
        return job
    except ValidationError as error:
        problem = problem_of(error, Job)
    except Problem as broken_rule:
        problem = broken_rule
    raise UserError(f"{document.place(shown, problem.paths)}: {problem}")


def _validate_time(key: str, time: Any) -> None:
    if time is None or (isinstance(time, str) and _TIME.fullmatch(time)):
        return
    seconds = isinstance(time, (int, float)) and not isinstance(time, bool) and time > 0
    unit = f" Write '{show(time)}s' for seconds." if seconds else ""
    raise Problem(f"{key} must be a time such as 90s, 30m or 1h30m; got {kind_of(time)}.{unit}", (key,))


def _validate_together(job: Job) -> None:
    if job.space is None and job.data is None:
        raise Problem("space is missing. Add 'space: …'.", ("space",))
    if job.space is not None and job.data is not None:
        raise Problem("data proposes its own space; leave out space or data.", ("data",))
    if job.pip and "pip" in job.runtime_env:
        raise Problem("pip stands twice. Leave out that of runtime_env.", ("pip",))
    if job.image and job.pip:
        raise Problem("an image brings its own packages; leave out image or pip.", ("pip",))
    for key in ("store", "tracking", "studies"):
        require_no_secret(key, getattr(job, key))
    try:
        job.resources.value()
        if job.workers > 1 and 0 < (job.resources.gpus or 0) < 1:
            raise UserError("workers of one trial cannot share a GPU. Write workers: 1, or whole gpus.")
    except UserError as error:
        raise Problem(f"resources: {error}", ("resources",)) from None
    if job.kuberay is not None:
        _validate_pods(job, job.kuberay)


def require_no_secret(key: str, address: str | None) -> None:
    if address is not None and holds_secret(address):
        raise Problem(
            f"{key} must hold no password: a job's records show it; got {show(without_password(address))}. "
            "Give it to the nodes' environment: PGPASSFILE, PGPASSWORD or MLFLOW_TRACKING_PASSWORD.",
            (key,),
        )


def _validate_pods(job: Job, pods: KubeRay) -> None:
    if job.image is None:
        raise Problem("kuberay needs an image that has dmltune. Add 'image: …'.", ("kuberay",))
    if pods.nodes_at_least > pods.nodes:
        raise Problem(
            f"kuberay.nodes_at_least is at most kuberay.nodes, {pods.nodes}; got {pods.nodes_at_least}.",
            ("kuberay", "nodes_at_least"),
        )
