"""One step of a training: loss, gradient, update.

On an accelerator the host only issues work here and reads nothing, but for the look at the loss in
`training_step`, every `LOOK_EVERY` steps. A component that reads a value stalls every step; see docs/gpu.md.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dmltune.core import collectives, optimizers
from dmltune.core.run import Diverged, Run

LOOK_EVERY = 16  # steps between two readings of the loss on an accelerator; each one waits for the device


def training_step(run: Run, model: nn.Module, images: Tensor, labels: Tensor, look: bool = False) -> None:
    """Train on this rank's share of a batch, which is on the device. `look`: read the loss in any case."""
    loss: Tensor = model(images, labels)
    if look or run.device.type == "cpu" or run.step % LOOK_EVERY == 0:
        check_finite(run, float(loss.detach()), "loss")
    run.set_rates()
    run.optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(run.scaler.scale(loss))
    if run.step < run.options.warmup_new_layers:
        run.objective.embedder.backbone.zero_grad()  # neither weights nor moments change
    if run.options.clip_norm is not None:
        run.scaler.unscale_(run.optimizer)
        optimizers.clip_gradients(run.optimizer, run.options.clip_norm)
    # with a gradient that is not finite the scaler leaves the step out, and a smaller scale follows
    run.scaler.step(run.optimizer)
    run.scaler.update()
    run.ema.update(run.step)
    run.count_step(loss.detach(), len(images) * collectives.world_size())


def check_finite(run: Run, value: float, what: str) -> None:
    """Raise Diverged for a number that is not finite."""
    if not math.isfinite(value):
        raise Diverged(run.step, what)
