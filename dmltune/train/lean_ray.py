"""A Ray on one machine without the processes and the imports that no search needs.

All that is changed here is internal to Ray. A version that has it elsewhere starts its processes as usual,
which is slower and not wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The autoscaler, the server of a dashboard that is left out, and what copies workers' output to the driver:
# a process of 60 MB each.
_UNUSED = ("start_monitor", "start_api_server", "start_log_monitor")
_SETUP = str(Path(__file__).with_name("worker_setup.py"))


@contextlib.contextmanager
def lean_ray(*, logs: bool) -> Iterator[None]:
    """Within the block `ray.init` starts only what a search needs; with `logs` also what shows them."""
    from ray._private import ray_constants
    from ray._private.node import Node

    unused = _UNUSED[:-1] if logs else _UNUSED
    changes: list[tuple[Any, str, Any]] = [(Node, name, _nothing) for name in unused]
    changes.append((ray_constants, "SETUP_WORKER_FILENAME", _SETUP))  # joined to the folder of Ray's own
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes if hasattr(owner, name)]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _nothing(*arguments: Any, **options: Any) -> None:
    """Stand in for a start."""
