"""What every rank of a slot does: take the next order, train it, hand each validation up, take the next.

Only rank 0 talks to the broker; what it hears is broadcast, so that all ranks take the same turn. A rank that
waits hears something at least every `HEARTBEAT_S` seconds, well under gloo's time-out.
"""

from __future__ import annotations

import gc
import json
import threading
import traceback
from typing import Any

import ray
import torch

from dmltune.core import collectives
from dmltune.core.fit import Diverged
from dmltune.errors import UserError
from dmltune.train.orders import Order, TrialReport, failed
from dmltune.train.trial import run_trial

HEARTBEAT_S = 20.0


def slot_loop(config: dict[str, Any]) -> None:
    """Serve orders until the broker says stop, or `config["orders"]` of them (1: a clean process for every
    trial).
    """
    slot, broker = config["slot"], config["broker"]
    first = collectives.rank() == 0
    if first:
        ray.get(broker.register.remote(slot))
    served = 0
    while config["orders"] is None or served < config["orders"]:
        answer = ray.get(broker.next_order.remote(slot, HEARTBEAT_S)) if first else None
        order = _same_on_all_ranks(vars(answer) if isinstance(answer, Order) else answer)
        if order == "stop":
            return
        if order == "idle":
            continue
        _serve(slot, broker, Order(**order))
        served += 1
        gc.collect()
        if served == 1:
            gc.freeze()  # modules and caches live for ever: later collections need not walk them


def _serve(slot: str, broker: Any, order: Order) -> None:
    torch.set_num_threads(order.threads)  # a reused worker keeps what the trial before it had set
    first, alone = collectives.rank() == 0, collectives.world_size() == 1
    dropped = threading.Event()
    if first:
        threading.Thread(target=_watch, args=(slot, broker, order.id, dropped), daemon=True).start()
    try:
        for report in run_trial(order, device=_device(), should_stop=dropped.is_set):
            if first:
                ray.get(broker.report.remote(slot, order.id, report))
            if report.finished or not _may_continue(slot, broker, order, report):
                return
    except Diverged as error:  # raised on every rank
        if first:
            ray.get(broker.report.remote(slot, order.id, failed(str(error))))
    except Exception as error:
        details = "" if isinstance(error, UserError) else traceback.format_exc()
        reason = (
            str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".splitlines()[0]
        )
        if alone:
            ray.get(broker.report.remote(slot, order.id, failed(reason, details)))
            return
        # The other ranks now wait for this one for ever: the whole group has to start again. A rank that only
        # lost its peer says nothing, so that the order is attempted again.
        if not _lost_a_peer(error):
            ray.get(broker.crashed.remote(slot, order.id, reason, details))
        raise
    finally:
        dropped.set()


def _may_continue(slot: str, broker: Any, order: Order, report: TrialReport) -> bool:
    while True:
        verdict = None
        if collectives.rank() == 0:
            verdict = ray.get(broker.verdict.remote(slot, order.id, report.number, HEARTBEAT_S))
        verdict = _same_on_all_ranks(verdict)
        if verdict != "wait":
            return bool(verdict == "go")


def _watch(slot: str, broker: Any, order_id: str, dropped: threading.Event) -> None:
    """Sets `dropped` when the trial is closed between two validations: Ctrl-C, time is up, actor died."""
    try:
        while not dropped.is_set():
            if ray.get(broker.wait_closed.remote(slot, order_id, HEARTBEAT_S)):
                dropped.set()
    except Exception:  # the group is being shut down, or the broker restarts: the next verdict decides
        return


def _same_on_all_ranks(value: Any) -> Any:
    """Rank 0's JSON-able value, on every rank."""
    if collectives.world_size() == 1:
        return value
    text = json.dumps(value).encode() if collectives.rank() == 0 else b""
    length = int(collectives.broadcast_number(float(len(text))))
    buffer = torch.zeros(length, dtype=torch.uint8)
    if collectives.rank() == 0:
        buffer.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    collectives.broadcast_(buffer)
    return json.loads(bytes(buffer.tolist()))


def _lost_a_peer(error: Exception) -> bool:
    """gloo and NCCL say it in words only."""
    text = f"{type(error).__name__} {error}".lower()
    signs = (
        "connection closed",
        "connection reset",
        "connection refused",
        "broken pipe",
        "timed out",
        "nccl",
        "peer",
    )
    return isinstance(error, RuntimeError) and any(sign in text for sign in signs)


def _device() -> torch.device:
    if torch.cuda.is_available():
        from ray.train.torch import get_device

        return get_device()
    return torch.device("cpu")
