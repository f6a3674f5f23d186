"""Rules for manifests that no schema has: named resources, no secret in the text, rules that exclude."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SECRET = re.compile(r"PASSWORD|PASSWD|TOKEN|SECRET|ACCESS_KEY|CREDENTIAL", re.IGNORECASE)
_SECRET_FILE = re.compile(r"(_PATH|_FILE)$")
_IN_ADDRESS = re.compile(r"[a-z0-9+]+://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)


def problems(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong, a line each."""
    found = []
    for document in documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        found += [f"{name}: {text}" for text in _problems(document)]
    return found


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    if document["kind"] == "Secret":
        yield "a secret stands in no file; make it with kubectl create secret"
    for path, node in _nodes(document):
        if isinstance(node, str) and _IN_ADDRESS.search(node):
            yield f"{path} is an address with a password"
        if isinstance(node, Mapping) and "value" in node and _names_secret(str(node.get("name", ""))):
            yield f"{path}: {node['name']} must come from a Secret (valueFrom or envFrom)"
    for path, container in containers(document):
        yield from (f"{path} {text}" for text in _resource_problems(container.get("resources") or {}))
    if document["kind"] == "RayJob":
        spec = document["spec"]
        if "deletionStrategy" in spec and spec.get("shutdownAfterJobFinishes"):
            yield "deletionStrategy excludes shutdownAfterJobFinishes"
        yield from _cluster_problems(spec["rayClusterSpec"])
    if document["kind"] == "RayCluster":
        yield from _cluster_problems(document["spec"])


def _cluster_problems(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("authOptions", {}).get("mode") != "token":
        yield "authOptions.mode must be token"
    if spec["headGroupSpec"]["rayStartParams"].get("num-cpus") != "0":
        yield 'the head trains nothing: rayStartParams num-cpus must be "0"'
    if spec.get("enableInTreeAutoscaling"):
        options = spec.get("autoscalerOptions", {})
        yield from (
            f"autoscalerOptions {text}" for text in _resource_problems(options.get("resources") or {})
        )


def containers(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (path, container) of every container of every pod in a manifest."""
    for path, node in _nodes(document):
        if isinstance(node, Mapping):
            for kind in ("containers", "initContainers"):
                for number, container in enumerate(node.get(kind) or []):
                    yield f"{path}.{kind}.{number}", container


def _resource_problems(resources: Mapping[str, Any]) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name in ("cpu", "memory"):
        if name not in requests or name not in limits:
            yield f"must request and limit {name}"
    if requests != limits:
        yield "must have the same requests and limits"


def _names_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _SECRET_FILE.search(name)


def _nodes(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, node
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _nodes(value, f"{path}.{key}".lstrip("."))
