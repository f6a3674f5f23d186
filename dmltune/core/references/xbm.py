"""Cross-batch memory (XBM): the batch against itself and against the embeddings of the batches before it.

B samples of the joined batch, S slots of the memory, M of them filled, D dimensions.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.host_numbers import HostNumbers
from dmltune.core.losses import refuse_references
from dmltune.core.references import References


class Xbm(HostNumbers, References):
    """`forward` enqueues the detached batch, then gives L(batch) + weight·L(sample × memory).

    The memory is filled from the first training step on; the second term joins after `start_step` of them
    (the authors' code begins to fill it only then). In evaluation mode the value is that of the memory as it
    is: nothing is enqueued or counted.

    As the batch is enqueued first, every sample meets its own copy: a positive at distance 0. The method's C1
    drops it by its [s < 1 − 1e-5]; for C2 and the margin loss it adds nothing. Other losses see one positive
    that is satisfied (in the triplet loss it means "no negative nearer than the margin"). It stays as in the
    text: its pull on the sample is along the sample itself, which l2 normalisation removes.
    """

    host_numbers = ("held", "next_slot", "steps")

    def __init__(
        self,
        *,
        dim: int,
        size: Annotated[int, Ge(1)] = 1024,
        start_step: Annotated[int, Ge(0)] = 1000,
        weight: Annotated[float, Ge(0)] = 1.0,
    ) -> None:
        super().__init__()
        self.size, self.start_step, self.weight = size, start_step, weight
        self.memory = nn.Buffer(torch.zeros(size, dim, dtype=torch.float32))
        self.memory_labels = nn.Buffer(torch.zeros(size, dtype=torch.long))
        self.held = self.next_slot = self.steps = 0

    def forward(self, loss: nn.Module, emb_BD: Tensor, labels_B: Tensor) -> Tensor:
        if not getattr(loss, "takes_references", True):
            refuse_references(loss, self.memory)  # now, not when the memory joins in
        started = self.steps >= self.start_step
        if self.training:
            self._enqueue(emb_BD.detach(), labels_B)
            self.steps += 1
        value: Tensor = loss(emb_BD, labels_B)
        if not (started and self.held and self.weight > 0):
            return value
        memory_MD, memory_labels_M = self.memory[: self.held], self.memory_labels[: self.held]
        remembered: Tensor = loss(emb_BD, labels_B, memory_MD, memory_labels_M)
        return value + self.weight * remembered

    def figures(self) -> dict[str, float]:
        return {"memory": float(self.held)}

    def idle(self) -> dict[str, str]:
        if self.steps <= self.start_step:
            why = "the memory did not join the loss; lower references.start_step, or raise max_steps"
            return dict.fromkeys(("size", "start_step", "weight"), why)
        if not self.weight:
            return dict.fromkeys(("size", "start_step"), "references.weight is 0")
        if self.held < self.size:
            return {"size": "the memory was never full; lower references.size, or raise max_steps"}
        return {}

    @torch.no_grad()
    def _enqueue(self, emb_BD: Tensor, labels_B: Tensor) -> None:
        """Overwrite the oldest items; of a batch larger than the memory the last S samples stay."""
        count = len(labels_B)
        recent = torch.arange(max(0, count - self.size), count, device=labels_B.device)
        slots = (self.next_slot + recent) % self.size
        self.memory[slots] = emb_BD[recent].to(self.memory.dtype)
        self.memory_labels[slots] = labels_B[recent]
        self.next_slot = (self.next_slot + count) % self.size
        self.held = min(self.held + count, self.size)
