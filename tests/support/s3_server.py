"""moto's S3 server on loopback: the object store of the tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

from support.clusters import free_port

SERVER = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"


@contextlib.contextmanager
def s3_server(*buckets: str) -> Iterator[dict[str, str]]:
    """Run the server; yield the environment that its clients need. The buckets are made."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"MOTO_ALLOW_NONEXISTENT_REGION": "true"},
    )
    try:
        for bucket in buckets:
            _make(f"{endpoint}/{bucket}")
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        process.terminate()
        process.wait(timeout=30)


def _make(bucket: str) -> None:
    """Make a bucket; repeated until the server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "the S3 server did not start"
            time.sleep(0.1)
