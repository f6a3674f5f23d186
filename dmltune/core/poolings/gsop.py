"""GSoP: channels weighted by their covariances, then the average.

B images, D channels, N positions, E reduced channels.
"""

from __future__ import annotations

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from dmltune.core.poolings import Pooling, local_features

_PER_ROW = 4  # filters on each row of the covariance


class Gsop(Pooling):
    """σ(W r(C) + b) ⊙ mean f, C = cov relu(V f + c) over the positions (Gao et al. 2019, channel-wise).

    C is (E, E), and r the row-wise convolution: 4 filters for every row of C. W starts at 0: average pooling
    up to scale. No batch norms (after V, after C): their statistics would tie images of a batch together. The
    position-wise block is left out: it needs maps of one size.
    """

    def __init__(self, *, channels: int, reduced: Annotated[int, Ge(1)] = 128) -> None:
        super().__init__()
        self.reduce = nn.Linear(channels, reduced)
        self.row_filters = nn.Parameter(torch.empty(reduced, reduced, _PER_ROW))
        self.row_bias = nn.Parameter(torch.zeros(reduced, _PER_ROW))
        self.excite = nn.Linear(_PER_ROW * reduced, channels)
        nn.init.uniform_(self.row_filters, -(reduced**-0.5), reduced**-0.5)
        nn.init.zeros_(self.excite.weight)
        nn.init.zeros_(self.excite.bias)

    def forward(self, features_BDHW: Tensor) -> Tensor:
        local_BND = local_features(features_BDHW)
        reduced_BNE = self.reduce(local_BND).relu()
        centred_BNE = reduced_BNE - reduced_BNE.mean(1, keepdim=True)
        covariance_BEE = centred_BNE.mT @ centred_BNE / centred_BNE.shape[1]
        rows_BE4 = torch.einsum("bij,ijk->bik", covariance_BEE, self.row_filters) + self.row_bias
        attention_BD: Tensor = self.excite(rows_BE4.flatten(1)).sigmoid()
        return attention_BD * local_BND.mean(1)
