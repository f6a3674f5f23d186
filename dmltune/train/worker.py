"""What every rank of a worker group does: take the next order, train it, report each validation, repeat.

Only rank 0 talks to the broker; its answers are broadcast, so all ranks take the same turn. A waiting rank
gets an answer at least every `HEARTBEAT_S` seconds, well under gloo's time-out.
"""

from __future__ import annotations

import contextlib
import gc
import json
import socket
import threading
import traceback
from pathlib import Path
from typing import Any

import ray
import torch

from dmltune.core import collectives
from dmltune.core.fit import Diverged
from dmltune.errors import UserError
from dmltune.private import keep_private
from dmltune.train import deaths
from dmltune.train.driver_files import use_driver_files
from dmltune.train.orders import DISK_FULL, Order, TrialReport
from dmltune.train.trial import run_trial
from dmltune.train.trial_place import trial_place

HEARTBEAT_S = 20.0
STEPS_S = 2.0  # between two messages with the step of a training
_PEER_LOST = (
    *("connection closed", "connection reset", "connection refused", "broken pipe", "timed out"),
    *("nccl", "peer"),
)


def serve_orders(config: dict[str, Any]) -> None:
    """Serve orders until the broker says stop, or `config["orders"]` of them (1: clean processes)."""
    keep_private()  # on a cluster a worker has the umask of the node
    group, broker = config["group"], config["broker"]
    use_driver_files(config["files"])
    first = collectives.rank() == 0
    if first:
        ray.get(broker.register.remote(group))
    _same_on_all_ranks("registered")
    ray.get(broker.join.remote(group, deaths.this_actor()))
    served = 0
    while config["orders"] is None or served < config["orders"]:
        answer = ray.get(broker.next_order.remote(group, HEARTBEAT_S)) if first else None
        order = _same_on_all_ranks(vars(answer) if isinstance(answer, Order) else answer)
        if order == "stop":
            return
        if order == "idle":
            continue
        _serve(group, broker, Order(**order))
        served += 1
        gc.collect()
        if served == 1:
            gc.freeze()  # modules and caches stay: later collections need not walk them
    if first:
        ray.get(broker.resign.remote(group))  # an order that was paused is no failed attempt of this group


def _serve(group: str, broker: Any, order: Order) -> None:
    torch.set_num_threads(order.threads)  # a reused worker keeps the number of the trial before it
    first, alone = collectives.rank() == 0, collectives.world_size() == 1
    dropped, position = threading.Event(), _Position()
    if first:
        arguments = (group, broker, order.id, dropped, position)
        threading.Thread(target=_watch, args=arguments, daemon=True).start()
    try:
        with (
            trial_place(order, first, lambda: _is_wanted(broker, order)) as place,
            deaths.crash_notes(Path(place.order.folder), collectives.rank()) as earlier,
        ):
            if earlier:
                ray.get(broker.note_death.remote(order.id, earlier))
            for report in run_trial(place.order, _device(), dropped.is_set, position.reach):
                if first:
                    place.validated(report.finished)
                    ray.get(broker.report.remote(group, order.id, report))
                if report.finished or not _may_continue(group, broker, order, report):
                    return
    except Diverged as error:  # raised on every rank
        if first:
            ray.get(broker.report.remote(group, order.id, TrialReport.failed(str(error))))
    except Exception as error:
        foreseen = isinstance(error, UserError)
        details = "" if foreseen else traceback.format_exc()
        reason = str(error) if foreseen else f"{type(error).__name__}: {error}".splitlines()[0]
        if deaths.is_full(error):
            details, reason = "", f"{DISK_FULL} of {socket.gethostname()} at {order.folder} ({reason[:120]})"
        if alone:
            ray.get(broker.report.remote(group, order.id, TrialReport.failed(reason, details)))
            return
        # The other ranks wait for this one for ever, so the whole group has to start again. A rank that only
        # lost its peer reports nothing: the order is attempted again.
        if not _lost_a_peer(error):
            ray.get(broker.crashed.remote(group, order.id, reason, details))
        raise
    finally:
        dropped.set()


def _may_continue(group: str, broker: Any, order: Order, report: TrialReport) -> bool:
    while True:
        verdict = None
        if collectives.rank() == 0:
            verdict = ray.get(broker.verdict.remote(group, order.id, report.number, HEARTBEAT_S))
        verdict = _same_on_all_ranks(verdict)
        if verdict != "wait":
            return bool(verdict == "go")


def _is_wanted(broker: Any, order: Order) -> bool:
    """Whether this order may be continued, here or elsewhere."""
    with contextlib.suppress(ray.exceptions.RayError):
        return not ray.get(broker.is_closed.remote(order.id))
    return True


class _Position:
    """The step of a training, written by its thread and read by that of `_watch`."""

    step = 0

    def reach(self, step: int) -> None:
        self.step = step


def _watch(group: str, broker: Any, order_id: str, dropped: threading.Event, position: _Position) -> None:
    """Tell the broker the step, and set `dropped` when the order is closed or paused."""
    try:
        while not dropped.is_set():
            if ray.get(broker.wait_left.remote(group, order_id, STEPS_S, position.step)):
                dropped.set()
    except Exception:  # the group is being shut down, or the broker restarts: the next verdict decides
        return


def _same_on_all_ranks(value: Any) -> Any:
    """Return rank 0's JSON-able value on every rank."""
    if collectives.world_size() == 1:
        return value
    text = json.dumps(value).encode() if collectives.rank() == 0 else b""
    length = int(collectives.broadcast_number(float(len(text))))
    # NCCL takes no tensor of the host
    buffer = torch.zeros(length, dtype=torch.uint8, device=collectives.device())
    if collectives.rank() == 0:
        buffer.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    collectives.broadcast_(buffer)
    return json.loads(bytes(buffer.tolist()))


def _lost_a_peer(error: Exception) -> bool:
    """gloo and NCCL have no exception class for it, only texts."""
    text = f"{type(error).__name__} {error}".lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in _PEER_LOST)


def _device() -> torch.device:
    if torch.cuda.is_available():
        from ray.train.torch import get_device

        device = get_device()
        torch.cuda.set_device(device)  # a worker sees all GPUs of its node; collectives use the current one
        return device
    return torch.device("cpu")
