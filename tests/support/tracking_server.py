"""MLflow's server on 127.0.0.1, and a proxy before it that fails as networks and servers do."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal

from support.servers import closed_port

Mode = Literal["pass", "refuse", "error", "lost", "slow"]
START_S = 120.0


@dataclass
class MlflowServer:
    """A server with its own SQLite (or the given database), which can be killed and started again."""

    folder: Path
    port: int
    database: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", self.database, "--workers", "1"]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), "--serve-artifacts"]
        with open(self.folder / "server.txt", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
                env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"},
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).read()
                return
            assert self.process.poll() is None, (self.folder / "server.txt").read_text()
            time.sleep(0.2)
        raise AssertionError("MLflow's server does not answer")

    def kill(self) -> None:
        """kill -9 of the server with its children."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
            self.process = None


@contextlib.contextmanager
def mlflow_server(folder: Path, database: str = "") -> Iterator[MlflowServer]:
    folder.mkdir(parents=True, exist_ok=True)
    server = MlflowServer(folder, closed_port(), database or f"sqlite:///{folder / 'server.db'}")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@dataclass
class Proxy:
    """Forwards requests. `refuse` closes the connection, `error` answers 503, `lost` forwards and closes the
    connection before the answer, `slow` answers after `delay_s` seconds. `requests` are those forwarded."""

    port: int
    mode: Mode = "pass"
    delay_s: float = 0.0
    only: str = ""  # the mode is for requests with this in their path

    def __post_init__(self) -> None:
        self.requests: list[str] = []

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def proxy_before(target_port: int) -> Iterator[Proxy]:
    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def handle_one_way(self) -> None:
            mode = proxy.mode if proxy.only in self.path.partition("?")[0] else "pass"
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if mode == "refuse":
                return
            if mode == "error":
                self.send_error(503)
                return
            if mode == "slow":
                time.sleep(proxy.delay_s)
            status, content_type, answer = self._forward(body)
            if mode == "lost":
                return
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_one_way

        def _forward(self, body: bytes) -> tuple[int, str, bytes]:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", target_port, timeout=60)) as to:
                try:
                    to.request(self.command, self.path, body, headers)
                    answer = to.getresponse()
                    text = answer.read()
                except OSError:
                    return 502, "text/plain", b"the server is away"
                proxy.requests.append(self.path.partition("?")[0])
                return answer.status, answer.headers.get("Content-Type", ""), text

        def log_message(self, *_: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    listening.daemon_threads = True
    proxy = Proxy(listening.server_address[1])
    Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        listening.shutdown()
        listening.server_close()
