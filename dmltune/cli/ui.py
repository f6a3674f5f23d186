"""`dmltune ui`: MLflow's pages over the store, on loopback."""

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
from dmltune.cli.parser import Parser, add_format, add_store, at_least
from dmltune.errors import UserError

SUMMARY = "browse every run with MLflow, on this machine only"
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a dozen processes for services that no run here uses
    "UVICORN_LOG_LEVEL": "warning",
    "PYTHONWARNINGS": "ignore",
}
EXAMPLES = """\
  dmltune ui                           http://127.0.0.1:5000
  dmltune ui --port 5050 --store /shared/mlruns
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--port", type=at_least(1), default=5000, metavar="N", help="default: 5000")
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.store import Store

    store = Store.at(args.store)
    if store.owns_tracking and not (store.root / "mlflow.db").exists():
        raise UserError(
            f"no runs in {store.root} yet; start with dmltune search glyphs-ccp, or say --store FOLDER"
        )
    with socket.socket() as probe:
        # MLflow's server would find out seconds later, with a traceback.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", args.port))
        except (OSError, OverflowError):
            raise UserError(f"port {args.port} is taken or not allowed; choose another with --port") from None
    address = f"http://127.0.0.1:{args.port}"
    options = ("--backend-store-uri", store.tracking_uri, "--workers", "1")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(args.port), *options],
        stdout=sys.stderr.fileno(),
        env=os.environ | ENVIRONMENT,
        start_new_session=True,  # Ctrl-C is ours alone: the server's children end with their group below
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
    """MLflow's server has children of its own; all of them end, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=5)
            if number == signal.SIGTERM:
                time.sleep(0.2)
