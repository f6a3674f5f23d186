"""An emulator of Google Cloud Storage on loopback, for addresses `gs://`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

from support.clusters import free_port

SERVER = """
import sys
from gcp_storage_emulator.server import create_server
create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket=sys.argv[2]).run()
"""


def is_installed() -> bool:
    return importlib.util.find_spec("gcp_storage_emulator") is not None


@contextlib.contextmanager
def gcs_server(bucket: str) -> Iterator[dict[str, str]]:
    """Run the emulator with one bucket; yield the environment that its clients need."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), bucket],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    try:
        _wait_for(f"{endpoint}/storage/v1/b/{bucket}")
        yield {"CLOUD_STORAGE_EMULATOR_ENDPOINT": endpoint}
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "the emulator of Google Cloud Storage did not start"
            time.sleep(0.1)
