"""Two object stores on loopback: moto's S3 server, and an emulator of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import gcs_server
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
