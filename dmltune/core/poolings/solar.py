"""SOLAR: features enriched by attention between positions, then the generalised mean.

B images, D channels, N positions, E attention channels.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.poolings import Pooling, local_features
from dmltune.core.poolings.gemean import generalised_mean


class Solar(Pooling):
    """The generalised mean (`gemean`, p learned) of f + ψ(softmax(Q Kᵀ / √E) V) (Ng et al. 2020).

    Q = relu(W_q f), K = relu(W_k f), V = W_v f and ψ linear, each with a bias. ψ starts at 0: at first it is
    the generalised mean of f. No batch norms before the relus, unlike the authors' code: their statistics
    would tie images of a batch together.
    """

    def __init__(
        self, *, channels: int, reduction: Annotated[int, Ge(1)] = 2, power: Annotated[float, Ge(1)] = 3.0
    ) -> None:
        super().__init__()
        width = max(1, channels // reduction)
        self.query = nn.Linear(channels, width)
        self.key = nn.Linear(channels, width)
        self.value = nn.Linear(channels, width)
        self.output = nn.Linear(width, channels)
        self.power = nn.Parameter(torch.tensor(power, dtype=torch.float32))
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        query_BNE = self.query(local_BND).relu() * self.query.out_features**-0.5
        attention_BNN = (query_BNE @ self.key(local_BND).relu().mT).softmax(-1)
        enriched_BND = local_BND + self.output(attention_BNN @ self.value(local_BND))
        return generalised_mean(enriched_BND, self.power)
