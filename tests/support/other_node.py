"""Files of a worker on another node, in a driver of its own: written, read again, and refused outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.clusters import ENVIRONMENT, Cluster

ON_THE_NODE = """
import hashlib, json, os, sys, tempfile, time
from pathlib import Path

import ray
from dmltune.errors import UserError
from dmltune.storage.route import RECEIVER, Route, find_route
from dmltune.train.orders import Order
from dmltune.train.trial_place import trial_place

ray.init(address=sys.argv[1], namespace="tests", logging_level="ERROR")
searches, said, found = Path(sys.argv[2]) / "searches", [], {}
big = os.urandom(30 * 2**20)


def work(order, content):
    with trial_place(order, True, lambda: True) as place:
        found = {"folder": place.order.folder, "direct": place.mirror is None}
        (Path(place.order.folder) / "last").mkdir(parents=True, exist_ok=True)
        (Path(place.order.folder) / "last" / "checkpoint.safetensors").write_bytes(content)
        place.validated(finished=True)
        found["mode"] = oct(Path(place.order.folder).parent.stat().st_mode & 0o777)
    return found


def read(order):
    with trial_place(order, True, lambda: True) as place:
        content = (Path(place.order.folder) / "last" / "checkpoint.safetensors").read_bytes()
    return hashlib.sha256(content).hexdigest()


def escape(route, name):
    try:
        Route(**route).transport().put(Path(__file__ if "__file__" in globals() else sys.executable), name)
    except UserError as error:
        return str(error)


def on_node(function, *arguments):
    return ray.get(ray.remote(num_cpus=1)(function).remote(*arguments))


with find_route(searches, "", "tests", said.append) as route:
    order = Order("x", {}, str(searches / "s" / "trials" / "0000"), route=route.to_dict())
    found |= on_node(work, order, big)
    ray.kill(ray.get_actor(RECEIVER, namespace="tests"), no_restart=False)
    found["same"] = on_node(read, order) == hashlib.sha256(big).hexdigest()
    found["escaped"] = [on_node(escape, order.route, name) for name in ("../../x", "/tmp/x", "link/x")]
print(json.dumps(found | {"said": said}))
"""


def on_the_node(cluster: Cluster, store: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", ON_THE_NODE, cluster.address, str(store)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | ENVIRONMENT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
