"""`dmltune ui`: MLflow's web pages of the store, on loopback, opened at a view that is ready."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
import zlib
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.cli.ui_links import UiLinks
    from dmltune.store import Store

SUMMARY = "browse and compare runs in MLflow, on this machine only"
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves a dozen processes
    "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE": "false",
    "UVICORN_LOG_LEVEL": "warning",
    "PYTHONWARNINGS": "ignore",
}
HOSTS_VARIABLE = "MLFLOW_SERVER_ALLOWED_HOSTS"
# MLflow's own default also allows patterns such as `10.*`, which match names of the Internet: 10.example.com
HOSTS = "localhost,localhost:*,127.0.0.1,127.0.0.1:*"
FIRST_PORT, PORTS = 20_000, 10_000  # below those that systems hand out
REMOTE = ("http://", "https://")
EXAMPLES = """\
  dmltune ui                           the latest search of the store
  dmltune ui demo                      a search, a training or a check
  dmltune ui demo --no-open --port 5050 --store /shared/mlruns
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a search, training or check; default: the latest search"
    )
    parser.add_number("--port", "default: one of the store's own, else a free one", bounds=(1, 65535))
    parser.add_flag("--no-open", "print the links and open no browser")
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.ui_links import links_of
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store

    store = Store.to_read(args.store)
    if not store.has_runs:
        raise UserError(f"no runs in {store.place} yet. Start a search, or choose another --store.")
    store.bring(store.artifacts)  # MLflow's pages show what is on this machine
    searches = StoredSearches(store)
    _ = (
        searches.tracker.client
    )  # a damaged database or a silent server is an error here, not in a server's log
    if store.tracking_uri.startswith(REMOTE):
        if args.port is not None:
            raise UserError(
                "--port is for a server of this machine, and MLFLOW_TRACKING_URI names one already."
            )
        _show(links_of(searches, args.name, without_user(store.tracking_uri)), store, args, out)
        return 0
    port = free_port(args.port, usual_port(store))
    links = links_of(searches, args.name, f"http://127.0.0.1:{port}")
    return _serve(port, store, lambda: _show(links, store, args, out))


def usual_port(store: Store) -> int:
    """Return the port of a store.

    Browsers keep what was closed, chosen and saved in MLflow's pages by address and port: with another port
    each time its assistant would open beside the table every time, and bookmarks would lead nowhere.
    """
    return FIRST_PORT + zlib.crc32(str(store.place).encode()) % PORTS


def free_port(wanted: int | None, usual: int = 0) -> int:
    """Return a free port, `usual` if it is; MLflow's server would fail seconds later, with a traceback."""
    for port in (wanted,) if wanted is not None else (usual, 0):
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            if port:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found: int = probe.getsockname()[1]
            return found
    raise UserError(f"port {wanted} is taken or not allowed. Choose another --port.")


def without_user(address: str) -> str:
    """Return the address without user name and password: a browser asks for them."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def _show(links: UiLinks, store: Store, args: argparse.Namespace, out: Output) -> None:
    remote = store.tracking_uri.startswith(REMOTE)
    out.document({**vars(links), "store": store.place})
    end = "" if remote else "   Ctrl-C ends it"
    out.show(
        f"{links.address}   runs of {'the tracking server' if remote else store.place}{end}", *links.lines()
    )
    if not args.no_open and not out.json and _has_browser():
        webbrowser.open(links.first)


def _has_browser() -> bool:
    """Whether a browser with a window can open; a text browser would take the terminal."""
    shown = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    with contextlib.suppress(webbrowser.Error):
        return bool(shown and webbrowser.get())
    return False


def _serve(port: int, store: Store, ready: Any) -> int:
    """Run MLflow's server until it ends or this process is told to; call `ready` when it answers."""
    options = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", *options],
        stdout=sys.stderr.fileno(),
        # the address may hold a password, which arguments would show to every user of the machine
        env=os.environ
        | ENVIRONMENT
        | {"MLFLOW_BACKEND_STORE_URI": store.tracking_uri, HOSTS_VARIABLE: allowed_hosts()},
        start_new_session=True,  # Ctrl-C reaches this process only; end_group ends the server's children
    )

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        print("starting MLflow …", file=sys.stderr)
        while server.poll() is None and not answers(port):
            time.sleep(0.1)
        if server.poll() is None:
            ready()
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        end_group(server)


def allowed_hosts() -> str:
    """Return the hosts that requests may name: this machine, or those of the user's environment but `*`."""
    own = [host.strip() for host in os.environ.get(HOSTS_VARIABLE, "").split(",")]
    return ",".join([HOSTS, *(host for host in own if host.strip("*"))])


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
