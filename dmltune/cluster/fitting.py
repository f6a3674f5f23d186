"""Does a job fit the cluster? Asked before anything is uploaded."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from dmltune.cluster.dashboard import Cluster
from dmltune.experiment import Job
from dmltune.worker_resources import amount_of, described, room

OLDEST_RAY, OLDEST_PYTHON = (2, 60), (3, 11, 4)


def request_of(job: Job, cluster: Cluster) -> dict[str, float]:
    """Return what one worker of the job asks for on this cluster."""
    return job.resources.value().request(any(node.get("GPU", 0) > 0 for node in cluster.nodes))


def shortage(job: Job, cluster: Cluster) -> str:
    """Return in one sentence what the cluster lacks for the job, or nothing."""
    request, groups = request_of(job, cluster), job.concurrent or 1
    needed, available = job.workers * groups, room(cluster.nodes, request)
    if available >= needed:
        return ""
    lacking = [name for name in request if room(cluster.nodes, {name: request[name]}) < needed]
    what = f"{needed} workers with {described(request)} each" if needed > 1 else described(request)
    if lacking:
        has = "; ".join(_has(name, cluster.nodes) for name in lacking)
    else:
        has = f"nodes with all of it together for {available} of them"
    return f"the job needs {what}; the cluster has {has}."


def remedy(job: Job) -> str:
    several = job.workers * (job.concurrent or 1) > 1
    return "Lower resources, workers or concurrent" if several else "Lower resources"


def _has(name: str, nodes: tuple[Mapping[str, float], ...]) -> str:
    amounts = [node.get(name, 0.0) for node in nodes]
    if not any(amounts):
        return f"no node with {name}"
    if len([amount for amount in amounts if amount]) == 1:
        return f"{amount_of(name, max(amounts))} in all"
    return f"{amount_of(name, sum(amounts))} in all, {amount_of(name, max(amounts))} on the largest node"


def trials_at_a_time(job: Job, cluster: Cluster) -> int:
    """Return how many trials the cluster runs at a time as it is now."""
    return job.concurrent or max(1, room(cluster.nodes, request_of(job, cluster)) // job.workers)


def version_problem(cluster: Cluster) -> str:
    """Return why dmltune cannot run there, or nothing."""
    ray, python = numbers(cluster.ray_version), numbers(cluster.python_version)
    if ray[:2] < OLDEST_RAY:
        return f"the cluster runs Ray {cluster.ray_version}; dmltune needs 2.60 or newer. Update the cluster."
    if python < OLDEST_PYTHON:
        return (
            f"the cluster runs Python {cluster.python_version}; dmltune needs 3.11.4 or newer. "
            "Update the cluster, or name an image in the job."
        )
    return ""


def version_note(cluster: Cluster) -> str:
    """Return how the versions differ from those here, or nothing. The code is source: it may differ."""
    import ray

    here = ".".join(map(str, sys.version_info[:3]))
    pairs = []
    if cluster.ray_version != ray.__version__:
        pairs.append(f"Ray {cluster.ray_version} (here {ray.__version__})")
    if numbers(cluster.python_version)[:2] != sys.version_info[:2]:
        pairs.append(f"Python {cluster.python_version} (here {here})")
    return f"the cluster runs {' and '.join(pairs)}; the job uses those of the cluster" if pairs else ""


def numbers(version: str) -> tuple[int, ...]:
    """Return (2, 60, 0) of `2.60.0rc1`."""
    parts = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        parts.append(int(digits or 0))
    return tuple(parts)
