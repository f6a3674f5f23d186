"""An HTTP server on 127.0.0.1 that sends one content, and can break off, refuse, redirect and change."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Site:
    """What is sent, and what was asked for. `breaks`: after so many bytes of an answer the line is cut, one
    entry an answer; `errors`: statuses of the first answers; `silent`: it does not tell the size."""

    content: bytes = b""
    etag: str = '"one"'
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    redirect: str = ""
    silent: bool = False
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, Range


@contextlib.contextmanager
def serve(**settings: object) -> Iterator[Site]:
    site = Site(**settings)  # type: ignore[arg-type]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_address[1]}/birds.tgz"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def _answer(handler: http.server.BaseHTTPRequestHandler, site: Site) -> None:
    asked = handler.headers.get("Range")
    site.asked.append((handler.path, asked))
    if site.errors:
        handler.send_error(site.errors.pop(0))
        return
    if site.redirect:
        handler.send_response(302)
        handler.send_header("Location", site.redirect)
        handler.end_headers()
        return
    same = handler.headers.get("If-Range") in (None, site.etag)
    found = re.match(r"bytes=(\d+)-$", asked or "") if site.ranges and same else None
    start, total = int(found[1]) if found else 0, len(site.content)
    if found and start >= total:
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{total}")
        handler.end_headers()
        return
    handler.send_response(206 if found else 200)
    if found:
        handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
    if not site.silent:
        handler.send_header("Content-Length", str(total - start))
    if site.etag:
        handler.send_header("ETag", site.etag)
    handler.end_headers()
    end = start + site.breaks.pop(0) if site.breaks else total
    handler.wfile.write(site.content[start:end])
