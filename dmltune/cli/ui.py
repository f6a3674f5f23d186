"""`dmltune ui`: MLflow's pages over the store, on loopback."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store, at_least
from dmltune.errors import UserError

SUMMARY = "browse every run with MLflow, on this machine only"
EXAMPLES = """\
  dmltune ui                           http://127.0.0.1:5000
  dmltune ui --port 5050 --store /shared/mlruns
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--port", type=at_least(1), default=5000, metavar="N", help="default: 5000")
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    import socket

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
    out.document({"address": address, "store": store.root})
    out.show(f"{address}   runs of {store.root}   Ctrl-C ends it")
    options = ("--backend-store-uri", store.tracking_uri, "--workers", "1")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(args.port), *options],
        stdout=sys.stderr.fileno(),
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
    )
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.wait()
        return 0
    finally:
        if server.poll() is None:
            server.terminate()
