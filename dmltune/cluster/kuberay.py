"""A job as a RayJob of KubeRay 1.7: a cluster of its own that grows, works, and is removed.

The head trains nothing (`num-cpus: "0"`). Every container names its resources, requests and limits alike.
A retry is a new cluster, and the same name continues the search from the store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment import Job
from dmltune.experiment.job import KubeRay, seconds_of
from dmltune.worker_resources import described, memory_bytes, room

SPACE_FOLDER = "/etc/dmltune"
USER = 1000  # of the image, jobs/image/Dockerfile
LONGEST_NAME = 40  # KubeRay appends to it
STORE_SHARE, WORK_SHARE = 0.1, 0.8  # of a pod's memory: Ray's object store, and what workers may ask for
LARGEST_STORE = 2 * 2**30
SUBMITTER = {"cpu": "500m", "memory": "512Mi"}
AUTOSCALER = {"cpu": "500m", "memory": "512Mi"}
START_DEADLINE_S = 3600
IDLE_S = 120


@dataclass(frozen=True)
class Pods:
    """How a job lies on its pods. `request` is that of one worker, `per_pod` how many fit a pod."""

    job: Job
    kuberay: KubeRay
    image: str
    request: Mapping[str, float]
    per_pod: int

    @property
    def concurrent(self) -> int:
        """Trials at a time: as many as the largest cluster has room for, unless the job says fewer."""
        return self.job.concurrent or max(1, self.kuberay.nodes * self.per_pod // self.job.workers)

    @property
    def cpus_per_worker(self) -> float:
        """CPUs of a worker; beside a GPU they are its share of the pod, for its threads."""
        return self.request.get("CPU") or max(1, self.kuberay.cpus // self.per_pod)

    def ray_resources(self) -> dict[str, float]:
        """Return what a worker pod offers, in Ray's names."""
        return offered(self.kuberay) | {
            name: amount * self.per_pod for name, amount in self.job.resources.custom.items()
        }


def offered(pods: KubeRay) -> dict[str, float]:
    memory = math.floor(memory_bytes(pods.memory) * WORK_SHARE)
    return {"CPU": float(pods.cpus), "GPU": float(pods.gpus), "memory": float(memory)}


def pods_of(job: Job, store: str) -> Pods:
    """Return how the job lies on its pods; a UserError when it does not fit, or would lose its results."""
    pods = job.kuberay or KubeRay()
    if job.image is None:
        raise UserError("--kuberay needs an image that has dmltune. Add image: … to the job.")
    request = job.resources.value().request(pods.gpus > 0)
    plain = {name: amount for name, amount in request.items() if name not in job.resources.custom}
    per_pod = room([offered(pods)], plain)
    if per_pod < 1:
        raise UserError(
            f"one worker needs {described(plain)}; a pod offers {described(_some(offered(pods)))} "
            f"({WORK_SHARE:.0%} of its memory). Raise cpus, gpus or memory of kuberay, or lower resources."
        )
    found = Pods(job, pods, job.image, request, per_pod)
    needed, available = found.concurrent * job.workers, per_pod * pods.nodes
    if needed > available:
        raise UserError(
            f"{found.concurrent} trials at a time × {job.workers} workers need {needed} places; {pods.nodes} "
            f"pods have {available}. Raise kuberay.nodes, or lower concurrent or workers."
        )
    _require_lasting(store, pods)
    return found


def _some(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if amount}


def _require_lasting(store: str, pods: KubeRay) -> None:
    if "://" in store:
        return
    if pods.claim is None or not (store + "/").startswith(pods.mount.rstrip("/") + "/"):
        raise UserError(
            f"the store must outlive the pods: s3://bucket/path, or a folder below {pods.mount} with "
            f"kuberay.claim; got {store or 'none'}. Set store: in the job."
        )


def kubernetes_name(name: str) -> str:
    """Return a name for Kubernetes: `My_search.1` → `my-search-1`."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:LONGEST_NAME].rstrip("-")
    return plain if plain and plain[0].isalpha() else f"s-{plain}".rstrip("-")


def documents(
    pods: Pods, name: str, command: str, environment: Mapping[str, str], space: tuple[str, str] | None
) -> list[dict[str, Any]]:
    """Return the ConfigMap with the space (file name, text), unless the job has data, and the RayJob."""
    own = kubernetes_name(name)
    found = []
    if space is not None:
        data = {space[0]: space[1]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(own, pods), "data": data})
    return [*found, ray_job(pods, own, command, environment, space is not None)]


def ray_job(
    pods: Pods, own: str, command: str, environment: Mapping[str, str], has_space: bool
) -> dict[str, Any]:
    keep = {"ttlSeconds": round(seconds_of(pods.kuberay.keep))}
    ends = ({"jobStatus": "SUCCEEDED"}, {"jobStatus": "FAILED"}, {"jobDeploymentStatus": "Failed"})
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _meta(own, pods),
        "spec": {
            "entrypoint": command,
            "submissionMode": "K8sJobMode",
            "backoffLimit": pods.job.retries,  # of whole clusters
            "submitterConfig": {"backoffLimit": 2},
            "submitterPodTemplate": {"spec": _submitter(pods)},
            "preRunningDeadlineSeconds": START_DEADLINE_S,
            # Rules exclude shutdownAfterJobFinishes.
            "deletionStrategy": {
                "deletionRules": [
                    {"condition": {**end, **keep}, "policy": "DeleteCluster"} for end in ends
                ]
            },
            "rayClusterSpec": cluster_spec(pods, own, environment, has_space),
        },
    }  # fmt: skip


def cluster_spec(pods: Pods, own: str, environment: Mapping[str, str], has_space: bool) -> dict[str, Any]:
    from ray import __version__

    kuberay = pods.kuberay
    auth: dict[str, Any] = {"mode": "token"} | (
        {"secretName": kuberay.token_secret} if kuberay.token_secret else {}
    )
    head = {"cpu": str(kuberay.head_cpus), "memory": kuberay.head_memory}
    worker = {"cpu": str(kuberay.cpus), "memory": kuberay.memory}
    if kuberay.gpus:
        worker["nvidia.com/gpu"] = str(kuberay.gpus)
    return {
        "rayVersion": __version__,
        "authOptions": auth,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": IDLE_S,
            "resources": {"requests": dict(AUTOSCALER), "limits": dict(AUTOSCALER)},
            "securityContext": _container_security(),
        },
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0"} | _memory(kuberay.head_memory),
            "template": _template("ray-head", pods, head, environment, own if has_space else None),
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": kuberay.nodes_at_least,
                "minReplicas": kuberay.nodes_at_least,
                "maxReplicas": kuberay.nodes,
                "rayStartParams": _start_parameters(pods),
                "template": _template("ray-worker", pods, worker, environment, None),
            }
        ],
    }


def _start_parameters(pods: Pods) -> dict[str, str]:
    offers = pods.ray_resources()
    found = {"num-cpus": f"{offers['CPU']:g}", "num-gpus": f"{offers['GPU']:g}"} | _memory(
        pods.kuberay.memory
    )
    custom = {name: amount for name, amount in offers.items() if name not in ("CPU", "GPU", "memory")}
    if custom:
        pairs = ", ".join(f'\\"{name}\\": {amount:g}' for name, amount in custom.items())
        found["resources"] = f'"{{{pairs}}}"'  # KubeRay puts it into a shell command as it is
    return found


def _memory(text: str) -> dict[str, str]:
    whole = memory_bytes(text)
    store = min(LARGEST_STORE, math.floor(whole * STORE_SHARE))
    return {"memory": str(math.floor(whole * WORK_SHARE)), "object-store-memory": str(store)}


def _template(
    container: str, pods: Pods, resources: dict[str, str], environment: Mapping[str, str], space: str | None
) -> dict[str, Any]:
    kuberay = pods.kuberay
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if kuberay.claim is not None:
        volumes.append({"name": "shared", "persistentVolumeClaim": {"claimName": kuberay.claim}})
        mounts.append({"name": "shared", "mountPath": kuberay.mount})
    if space is not None:
        volumes.append({"name": "space", "configMap": {"name": space}})
        mounts.append({"name": "space", "mountPath": SPACE_FOLDER, "readOnly": True})
    described_container: dict[str, Any] = {
        "name": container,
        "image": pods.image,
        "imagePullPolicy": kuberay.pull,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "securityContext": _container_security(),
    }
    if kuberay.secret is not None:
        described_container["envFrom"] = [{"secretRef": {"name": kuberay.secret}}]
    if mounts:
        described_container["volumeMounts"] = mounts
    spec = _pod() | {"containers": [described_container]}
    return {"spec": spec | ({"volumes": volumes} if volumes else {})}


def _submitter(pods: Pods) -> dict[str, Any]:
    """Return the pod that submits the job and follows its log."""
    return _pod() | {
        "containers": [
            {
                "name": "ray-job-submitter",
                "image": pods.image,
                "imagePullPolicy": pods.kuberay.pull,
                "resources": {"requests": dict(SUBMITTER), "limits": dict(SUBMITTER)},
                "securityContext": _container_security(),
            }
        ]
    }


def _pod() -> dict[str, Any]:
    """Return what every pod has. The autoscaler (v2) wants pods that are not restarted in their place."""
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER},
    }


def _container_security() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _meta(own: str, pods: Pods) -> dict[str, Any]:
    named = {"name": own, "labels": {"app.kubernetes.io/name": "dmltune"}}
    return named | ({"namespace": pods.kuberay.namespace} if pods.kuberay.namespace else {})
