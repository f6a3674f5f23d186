"""A tracking server that speaks MLflow's protocol and answers with what makes no sense.

The first part of the path says how: `/endless/api/2.0/mlflow/runs/search`.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.finished_search import NAME

RUN = {
    "info": {
        "run_id": "a" * 32,
        "run_name": NAME,
        "experiment_id": "1",
        "status": "FINISHED",
        "start_time": 1,
        "end_time": 2,
        "artifact_uri": "mlflow-artifacts:/1/a/artifacts",
        "lifecycle_stage": "active",
    },
    "data": {
        "metrics": [{"key": "map_at_r", "value": 0.5, "timestamp": 1, "step": 0}],
        "tags": [{"key": "dmltune.search", "value": NAME}],
    },
}
DIGITS = "9" * 5000  # Python reads no number of so many
CHANGES: dict[str, tuple[tuple[str | int, ...], Any]] = {  # of the run
    "tag-number": (("data", "tags", 0, "value"), 5),
    "tag-list": (("data", "tags", 0, "key"), [[]]),
    "tags-text": (("data", "tags"), DIGITS),
    "metrics-number": (("data", "metrics"), 10**30),
    "step-digits": (("data", "metrics", 0, "step"), DIGITS),
    "start-digits": (("info", "start_time"), DIGITS),
    "info-list": (("info",), []),
}
KINDS = (*CHANGES, "endless", "endless-tokens", "endless-runs", "endless-nothing", "forgetful")
_NUMBERS = itertools.count()


def _answer(kind: str, path: str) -> dict[str, Any]:
    run: Any = copy.deepcopy(RUN)
    if kind in CHANGES:
        (*way, last), value = CHANGES[kind]
        place = run
        for key in way:
            place = place[key]
        place[last] = value
    if "experiments/search" in path:
        experiment = {"experiment_id": "1", "name": "x", "lifecycle_stage": "active"}
        return {"experiments": [{**experiment, "artifact_location": "mlflow-artifacts:/1"}]}
    if "runs/search" in path:
        number = next(_NUMBERS)
        if kind == "endless-runs":
            run["info"]["run_id"] = f"{number:032x}"
        token = "t" if kind == "endless" else f"t{number}"
        runs = [] if kind == "endless-nothing" else [run]
        return {"runs": runs} | ({"next_page_token": token} if kind.startswith("endless") else {})
    if "runs/" in path:
        return {"run": run}
    return {"experiment_id": "1"} if "experiments/create" in path else {}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def _reply(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind, _, path = self.path.lstrip("/").partition("/")
        body = b"OK" if path == "health" else json.dumps(_answer(kind, path)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = _reply


@contextlib.contextmanager
def odd_mlflow() -> Iterator[int]:
    """Serve on loopback; yield the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
