"""The exponential moving average of the embedder's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dmltune.core.embedder import Embedder

_FORGETS_THE_START = 10


class Ema:
    """θ̄ ← d_t θ̄ + (1 − d_t) θ after every step t = 0, 1, …, with d_t = min(decay, t / (t + 10)).

    The rising decay lowers the weight of the random start in short trainings. It is a function of the step,
    and all ranks hold the same weights: only θ̄ is stored. Running statistics of batch norms are averaged as
    weights are; counters are copied.
    """

    def __init__(self, embedder: Embedder, decay: float) -> None:
        self.embedder, self.decay = embedder, decay
        self.average: dict[str, Tensor] = {}
        """By the names of the embedder's state; empty before the first step."""

    @torch.no_grad()
    def update(self, step: int) -> None:
        if not self.decay:
            return
        weights = self.embedder.state_dict()
        if not self.average:
            self.average = {name: value.clone() for name, value in weights.items()}
            return
        share = 1 - min(self.decay, step / (step + _FORGETS_THE_START))
        moving = [name for name, value in weights.items() if value.is_floating_point()]
        # one call, and few kernels on a device, for all weights
        averages, values = ([state[name] for name in moving] for state in (self.average, weights))
        torch._foreach_lerp_(averages, values, share)
        for name in weights.keys() - set(moving):
            self.average[name].copy_(weights[name])

    def restore(self, average: dict[str, Tensor]) -> None:
        own = self.embedder.state_dict()
        self.average = {name: torch.empty_like(own[name]).copy_(value) for name, value in average.items()}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the average into the embedder until the block ends."""
        if not self.average:
            yield
            return
        live = {name: value.clone() for name, value in self.embedder.state_dict().items()}
        self.embedder.load_state_dict(self.average)
        try:
            yield
        finally:
            self.embedder.load_state_dict(live)
