"""`dmltune serve`: embed and search over HTTP."""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING

from dmltune.cli.embed import add_model, warn_untrained
from dmltune.cli.output import Output, say
from dmltune.cli.parser import Parser, add_format, add_store
from dmltune.errors import UserError, readable

if TYPE_CHECKING:
    from fastapi import FastAPI

SUMMARY = "serve a winner over HTTP: embed, and search an index; loopback by default"
EXAMPLES = """\
  dmltune serve demo                                 http://127.0.0.1:8000, described at /docs
  dmltune serve demo --index photos.index --port 8080
  dmltune serve demo --max-mb 8 --max-images 16
"""


def add_arguments(parser: Parser) -> None:
    add_model(parser)
    parser.add_path("--index", "answer /search from this file of `dmltune index`", metavar="INDEX")
    parser.add_number("--port", "default: 8000; 0 takes a free one", default=8000, bounds=(0, 65535))
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="to listen on (default: 127.0.0.1, this machine)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that requests may have for this server, such as a proxy's",
    )
    parser.add_number("--max-mb", "megabytes of a request (default: 32)", default=32, bounds=(1, 1000))
    parser.add_number(
        "--max-megapixels", "of an image (default: 50)", default=50, bounds=(1, 178), metavar="N"
    )
    parser.add_number("--max-images", "images of a request (default: 64)", default=64, bounds=(1, 10_000))
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    require_fastapi()
    from dmltune.serving import load
    from dmltune.serving.http_app import RequestLimits, application
    from dmltune.serving.index import ImageIndex

    listening = listen(args.host, args.port)
    with listening:
        index = None if args.index is None else ImageIndex.load(args.index)
        model = load(args.name, store=args.store)
        if index is not None:
            index.require(model)
        warn_untrained(model)
        limits = RequestLimits(args.max_mb * 1_000_000, args.max_megapixels * 1_000_000, args.max_images)
        app = application(model, index, limits, [args.host, socket.gethostname(), *args.allow_host])
        host, port = listening.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if host not in ("127.0.0.1", "::1"):
            say(f"{host} is not loopback: everybody who reaches it can use the model. There is no login.")
        out.document({"address": address, "model": model.facts(), "index": args.index})
        what = "" if index is None else f" and {index.facts.images:,} indexed images"
        out.show(f"{address}   {model.name}{what}   {address}/docs   Ctrl-C ends it")
        serve(app, listening)
    return 0


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; an address that is taken or not allowed is a UserError."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"--host must be an address of this machine; got {readable(host)} ({error})."
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UserError(
            f"{readable(host)} port {port} cannot be used ({error.strerror}). Choose another --port."
        ) from None
    return listening


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    import contextlib

    from dmltune.serving.http_guard import server_of

    with contextlib.suppress(KeyboardInterrupt):
        server_of(app).run(sockets=[listening])


def require_fastapi() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"serve needs {error.name}, which is not installed. pip install 'dmltune[serve]'"
        ) from None
