"""The page that a browser shows of the server: its addresses, one request to copy, the limits.

It is one file without references to others. FastAPI's own page loads scripts from another server, so it is
empty without a network, and tells that server who reads it.
"""

from __future__ import annotations

from html import escape
from typing import Any

ROWS = (
    ("POST /embed", "embeddings of images: one image as the body, or JSON with up to {images}"),
    ("POST /search?k=10&rerank=none", "the nearest images of the index; rerank: none, k-reciprocal or aqe"),
    ("GET /model", "what the model is, how images are prepared, the limits, the index"),
    ("GET /health", "whether the server answers"),
    ("GET /openapi.json", "this description for programs, by OpenAPI"),
)
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
_STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
td { padding: .3rem 1rem .3rem 0; vertical-align: top; }
code, pre { font: .9em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }"""


def page(name: str, fingerprint: str, images: int, index: Any, address: str) -> str:
    """Return the page; `images` is the most of one request, `index` the facts of the index or None."""
    rows = "\n".join(
        f"<tr><td><code>{escape(request)}</code></td><td>{escape(text.format(images=images))}</td></tr>"
        for request, text in ROWS
    )
    found = "no index: start the server with --index to search"
    if index is not None:
        found = f"index of {index.images:,} images ({index.kind})"
    path = "embed" if index is None else "search?k=5"
    command = f"curl --data-binary @new.jpg -H 'Content-Type: image/jpeg' '{address}{path}'"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>{escape(name)}: dmltune serve</title><style>{_STYLE}</style></head>
<body><h1>{escape(name)}</h1>
<p>Model {escape(fingerprint)}; {escape(found)}.</p>
<table>{rows}</table>
<p>An image and its answer:</p>
<pre>{escape(command)}</pre>
<p>JSON is <code>{escape('{"images": ["BASE64", …]}')}</code>. A refused request gets
<code>{escape('{"error": {"code", "message"}}')}</code>.</p>
</body></html>
"""
