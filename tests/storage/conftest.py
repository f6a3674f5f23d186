"""Two object stores on loopback, and a cluster: a head without a CPU, two worker nodes that share no folder.

The driver runs beside the head, as in KubeRay. The worker nodes are in mount namespaces of their own, where
an empty folder hides the driver's disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import gcs_server
from support.cluster_drivers import Start, drivers
from support.clusters import Cluster, running_cluster
from support.s3_server import s3_server

from dmltune.storage import addresses


@pytest.fixture(scope="session", params=["s3", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    if request.param == "gs" and not gcs_server.is_installed():
        pytest.skip("needs gcp-storage-emulator")
    return str(request.param)


@pytest.fixture(scope="session")
def server(scheme: str) -> Iterator[dict[str, str]]:
    with s3_server("bucket") if scheme == "s3" else gcs_server.gcs_server("bucket") as environment:
        yield environment


@pytest.fixture
def address(
    scheme: str, server: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[str]:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    addresses._file_system.cache_clear()
    yield f"{scheme}://bucket/{request.node.name[:60].partition('[')[0]}"
    addresses._file_system.cache_clear()


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the worker nodes do not see: stores, and the driver's copies of addresses."""
    return tmp_path_factory.mktemp("drivers-disk")


@pytest.fixture(scope="package")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own for the cache of each worker node."""
    return tmp_path_factory.mktemp("caches-of-the-nodes")


@pytest.fixture(scope="package")
def s3() -> Iterator[dict[str, str]]:
    with s3_server("bucket") as environment:
        yield environment


@pytest.fixture(scope="package")
def cluster(folder: Path, caches: Path, s3: dict[str, str]) -> Iterator[Cluster]:
    with running_cluster() as running:
        for name in ("one", "other"):
            running.add_node(name, 1, hidden=[folder], DMLTUNE_CACHE=str(caches / name), **s3)
        yield running


@pytest.fixture
def dmltune(cluster: Cluster, folder: Path, s3: dict[str, str]) -> Iterator[Start]:
    with drivers(cluster, s3 | {"DMLTUNE_CACHE": str(folder / "cache")}) as start:
        yield start
