"""Type in which the backbone computes while it trains: float32, bfloat16, float16, or the faster of two.

Weights, gradients and everything behind the feature map (projection, pooling, loss) stay float32. Inference
does too: models are validated as they are served. float64 is never lowered. float16 has few exponents: its
gradients are scaled, by a factor that falls when they overflow and rises again (`Run.scaler`). "auto" chooses
between float32 and bfloat16.
"""

from __future__ import annotations

import copy
import time

import torch
from torch import Tensor

from dmltune.core import collectives
from dmltune.core.embedder import Embedder

LOWERED = {"bfloat16": torch.bfloat16, "float16": torch.float16}
GAIN = 0.05  # bfloat16 has to save this share of the time; otherwise float32 is used
_ROUNDS = 3
_IMAGES = 8  # images of a batch that are timed on a CPU; an accelerator gets the whole batch


def settled(embedder: Embedder, images_B3HW: Tensor) -> str:
    """Return float32 or bfloat16, whichever is faster now; rank 0's result holds on all ranks."""
    seconds = measured(embedder, images_B3HW)
    faster = seconds["bfloat16"] < (1 - GAIN) * seconds["float32"]
    return "bfloat16" if collectives.broadcast_number(float(faster)) else "float32"


def measured(embedder: Embedder, images_B3HW: Tensor) -> dict[str, float]:
    """Return the least seconds of a pass in each type; on a copy, without drawing numbers."""
    device = images_B3HW.device
    images_B3HW = images_B3HW[:_IMAGES] if device.type == "cpu" else images_B3HW
    seconds = {"float32": float("inf"), "bfloat16": float("inf")}
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        probe = copy.deepcopy(embedder).train()
        for number in range(1 + _ROUNDS):
            for name in seconds:
                probe.lowered = LOWERED.get(name)
                begin = _now(device)
                torch.autograd.backward(probe.map(images_B3HW).sum())
                if number:  # the first round allocates and compiles
                    seconds[name] = min(seconds[name], _now(device) - begin)
    return seconds


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()
