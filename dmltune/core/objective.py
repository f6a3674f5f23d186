"""Everything that learns in one module: one DistributedDataParallel wraps it.

B samples of this rank, of all ranks once they are joined; D dimensions, M pseudo-attributes, W weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dmltune.core import collectives
from dmltune.core.batch_norm import synchronise_batch_norm
from dmltune.core.embedder import Embedder
from dmltune.core.geometry import l2_normalise
from dmltune.core.references import References
from dmltune.core.transforms import Transform
from dmltune.core.zero_shot import ZeroShot


class Objective(nn.Module):
    """(1 − w)·(J(X, Y) + v·J(X_gen, Y_gen)) + w·L_ZS + λ/2·‖θ − θ*‖², all over the joined batch.

    J is the loss against the references, v the weight of the feature transform (seed 001), w that of the
    zero-shot loss (eq. 5.2.5), λ that of the references' penalty (eq. 3.2.11).
    """

    def __init__(
        self,
        embedder: Embedder,
        loss: nn.Module,
        references: References,
        transform: Transform | None = None,
        zero_shot: ZeroShot | None = None,
    ) -> None:
        super().__init__()
        self.embedder = embedder
        self.loss = loss
        self.references = references
        self.transform = transform
        self.zero_shot = zero_shot
        self._compiled: Callable[..., tuple[Tensor, Tensor | None]] | None = None

    def compile_parts(self, **options: Any) -> None:
        """Let torch compile what a training step computes; state and inference stay as they are.

        These are the map and its pooling, the loss and the zero-shot loss. Between them the ranks communicate
        and the references count. Losses and poolings that cannot be one graph are compiled in parts.
        """
        # torch's own tracing looks at it, and users cannot act on it
        warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf", UserWarning)
        self._compiled = torch.compile(self.embedder.pooled, **options)
        for part in (self.loss, self.zero_shot):
            if part is not None:
                part.compile(**options)

    def forward(self, images_B3HW: Tensor, labels_B: Tensor) -> Tensor:
        raw_BD, attributes_BM = self._joined(images_B3HW)
        labels_B = collectives.gather_equal(labels_B)
        emb_BD = self.embedder.normalised(raw_BD)
        value: Tensor = self.references(self.loss, emb_BD, labels_B)
        if self.transform is not None and self.training:
            value = value + self._generated(self.transform, raw_BD, labels_B)
        if self.zero_shot is not None and attributes_BM is not None:
            weight = self.zero_shot.weight
            value = (1 - weight) * value + weight * self.zero_shot(attributes_BM, labels_B)
        # not in the method: a mask in the loss must not hide an embedding that is not finite
        value = value + 0 * emb_BD.detach().sum()
        if self.references.penalises:
            value = value + self.references.penalty(self.weights_W())
        return value

    def weights_W(self) -> Tensor:
        """Return θ, the trainable weights of the embedder as one flat vector with gradient."""
        learning = [weight for weight in self.embedder.parameters() if weight.requires_grad]
        return torch.cat([weight.reshape(-1) for weight in learning])

    def _joined(self, images_B3HW: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return pooled points and attributes of all ranks, gathered in one message."""
        pooled = self._compiled or self.embedder.pooled
        raw_BD, attributes_BM = pooled(images_B3HW, attributes=self.zero_shot is not None)
        if attributes_BM is None:
            return collectives.gather_with_gradient(raw_BD), None
        both = collectives.gather_with_gradient(torch.cat([raw_BD, attributes_BM.to(raw_BD.dtype)], dim=1))
        return both[:, : raw_BD.shape[1]], both[:, raw_BD.shape[1] :]

    def _generated(self, transform: Transform, raw_BD: Tensor, labels_B: Tensor) -> Tensor:
        """Return v·J(X_gen, Y_gen) with the generated points as the whole batch; update the centres."""
        unit_BD = l2_normalise(raw_BD)
        generated_GD, labels_G = transform.generate(raw_BD, unit_BD, labels_B)
        if not getattr(self.loss, "skips_negative_labels", False):
            taken_G = labels_G >= 0
            generated_GD, labels_G = generated_GD[taken_G], labels_G[taken_G]
        value = raw_BD.new_zeros(())
        if len(labels_G):
            value = transform.weight * self.loss(generated_GD, labels_G)
        transform.update_(raw_BD.detach(), unit_BD.detach(), labels_B)
        return value


def distribute(objective: Objective) -> Objective | DistributedDataParallel:
    """Return the module to train; with several ranks, batch norms and gradients are joint."""
    if collectives.world_size() == 1:
        return objective
    synchronise_batch_norm(objective.embedder)
    return DistributedDataParallel(objective, broadcast_buffers=False, gradient_as_bucket_view=True)
