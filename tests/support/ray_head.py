"""A Ray head on 127.0.0.1 with a token, and a job's command line for it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from support.servers import closed_port

RAY = str(Path(sys.executable).with_name("ray"))


@contextlib.contextmanager
def ray_head(token: Path, cpus: int = 2) -> Iterator[tuple[str, str]]:
    """Yield the addresses of dashboard and GCS. `ray start --block` ends its children when it is ended."""
    port, dashboard, agent, client = (str(closed_port()) for _ in range(4))
    options = {
        "--port": port,
        "--dashboard-port": dashboard,
        "--dashboard-agent-listen-port": agent,
        "--ray-client-server-port": client,
        "--num-cpus": str(cpus),
        "--object-store-memory": str(128 * 2**20),
    }
    every_socket_on_loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    no_killer = {"RAY_memory_monitor_refresh_ms": "0"}  # of workers, when other programs fill the machine
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    with tempfile.TemporaryDirectory(prefix="dmlh-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [RAY, "start", "--head", "--block", "--disable-usage-stats", "--temp-dir", folder]
            + [word for option in options.items() for word in option],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | every_socket_on_loopback | no_killer | secret,
        )
        try:
            wait_for_port(int(agent))
            yield f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("Ray's head did not start")
