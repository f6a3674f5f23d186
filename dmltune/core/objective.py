"""Everything that learns in one module, so that one DistributedDataParallel wraps it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dmltune.core import collectives
from dmltune.core.batch_norm import synchronise_batch_norm
from dmltune.core.embedder import Embedder
from dmltune.core.references import References


class Objective(nn.Module):
    """L(joined batch) + λ/2·‖θ − θ*‖²: gather → references(loss, emb, labels) + references.penalty(θ)."""

    def __init__(self, embedder: Embedder, loss: nn.Module, references: References) -> None:
        super().__init__()
        self.embedder = embedder
        self.loss = loss
        self.references = references

    def forward(self, images_B3HW: Tensor, labels_B: Tensor) -> Tensor:
        emb_BD = collectives.gather_with_gradient(self.embedder(images_B3HW))
        value: Tensor = self.references(self.loss, emb_BD, collectives.gather_equal(labels_B))
        # not in the method: a mask in the loss must not hide an embedding that is not finite
        value = value + 0 * emb_BD.detach().sum()
        if self.references.penalises:
            value = value + self.references.penalty(self.weights_W())
        return value

    def weights_W(self) -> Tensor:
        """θ: the trainable weights of backbone and head as one flat vector, with gradient."""
        return torch.cat(
            [weight.reshape(-1) for weight in self.embedder.parameters() if weight.requires_grad]
        )


def distribute(objective: Objective) -> Objective | DistributedDataParallel:
    """The module to train: with several ranks, batch norms over the joined batch and averaged gradients."""
    if collectives.world_size() == 1:
        return objective
    synchronise_batch_norm(objective.embedder)
    return DistributedDataParallel(objective, broadcast_buffers=False, gradient_as_bucket_view=True)
