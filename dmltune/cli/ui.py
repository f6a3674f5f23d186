"""`dmltune ui`: MLflow's web pages of the store, on loopback."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError

SUMMARY = "browse every run with MLflow, on this machine only"
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves a dozen processes
    "UVICORN_LOG_LEVEL": "warning",
    "PYTHONWARNINGS": "ignore",
}
EXAMPLES = """\
  dmltune ui                           http://127.0.0.1:5000
  dmltune ui --port 5050 --store /shared/mlruns
"""


def add_arguments(parser: Parser) -> None:
    parser.add_number("--port", "default: 5000", bounds=(1, 65535), default=5000)
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store
    from dmltune.tracking import Tracker

    store = Store.at(args.store)
    if store.owns_tracking and not (store.root / "mlflow.db").exists():
        raise UserError(f"no runs in {store.root} yet. Start a search, or choose another --store.")
    _ = Tracker(store).client  # a damaged database or a silent server is an error here, not in a server's log
    with socket.socket() as probe:
        # MLflow's server would fail seconds later, with a traceback
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", args.port))
        except (OSError, OverflowError):
            raise UserError(f"port {args.port} is taken or not allowed. Choose another --port.") from None
    address = f"http://127.0.0.1:{args.port}"
    options = ("--host", "127.0.0.1", "--port", str(args.port), "--workers", "1")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", *options],
        stdout=sys.stderr.fileno(),
        # the address may hold a password, which arguments would show to every user of the machine
        env=os.environ | ENVIRONMENT | {"MLFLOW_BACKEND_STORE_URI": store.tracking_uri},
        start_new_session=True,  # Ctrl-C reaches this process only; end_group ends the server's children
    )

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        print("starting MLflow …", file=sys.stderr)
        while server.poll() is None and not answers(args.port):
            time.sleep(0.1)
        if server.poll() is None:
            out.document({"address": address, "store": store.root})
            out.show(f"{address}   runs of {store.root}   Ctrl-C ends it")
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        end_group(server)


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def end_group(server: subprocess.Popen[bytes]) -> None:
    """End the server with its children: SIGTERM first, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=5)
            if number == signal.SIGTERM:
                time.sleep(0.2)
