"""Do attributes that were fitted on some classes predict the embedding of others (§5.3.3)?

N samples, M attributes, D dimensions, C classes, R repetitions with K classes in each half.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

HALF, REPEATS = 5, 1000  # the text: 10 classes in two halves, 1000 times


class Transfer(NamedTuple):
    """Shares of classes whose predicted mean is nearest to their own; 1/K is chance."""

    euclidean: float
    cosine: float
    chance: float


def class_attributes(attributes_NM: Tensor, labels_N: Tensor) -> Tensor:
    """Return (C, M): the mean attributes of each class, which sum to 1 as those of a sample do."""
    return _class_sums(attributes_NM, labels_N) / labels_N.bincount().unsqueeze(1)


@torch.no_grad()
def attribute_transfer(
    attributes_NM: Tensor,
    emb_ND: Tensor,
    labels_N: Tensor,
    *,
    half: int = HALF,
    repeats: int = REPEATS,
    ridge: float = 0.05,
    seed: int = 0,
) -> Transfer:
    """Fit A on K random classes, predict the means of K others, and take the nearest of those K means.

    A = argmin Σ_i ‖A z_i − m_{y_i}‖² + ridge·‖A‖² over the samples of the first K classes (P3), with m the
    mean point of a class; A times the mean attributes of a class is its prediction. Labels are 0 … C − 1,
    each with a sample, C ≥ 2K.
    """
    z_NM, x_ND = attributes_NM.double(), emb_ND.double()
    counts_C = labels_N.bincount()
    classes = len(counts_C)
    if classes < 2 * half:
        raise ValueError(f"needs {2 * half} classes; got {classes}")
    sums_CM = _class_sums(z_NM, labels_N)
    means_CD = _class_sums(x_ND, labels_N) / counts_C.unsqueeze(1)
    gram_CMM = torch.stack([z_NM[labels_N == c].mT @ z_NM[labels_N == c] for c in range(classes)])
    generator = torch.Generator().manual_seed(seed)
    draws_RC = torch.stack([torch.randperm(classes, generator=generator) for _ in range(repeats)])
    fit_RK, other_RK = draws_RC[:, :half], draws_RC[:, half : 2 * half]
    system_RMM = gram_CMM[fit_RK].sum(1) + ridge * torch.eye(z_NM.shape[1], dtype=z_NM.dtype)
    map_RMD = torch.linalg.solve(system_RMM, sums_CM[fit_RK].mT @ means_CD[fit_RK])
    predicted_RKD = (sums_CM / counts_C.unsqueeze(1))[other_RK] @ map_RMD
    true_RKD = means_CD[other_RK]
    own_K = torch.arange(half)
    nearest_RK = torch.cdist(predicted_RKD, true_RKD).argmin(-1)
    closest_RK = (normalize(predicted_RKD, dim=-1) @ normalize(true_RKD, dim=-1).mT).argmax(-1)
    shares = [float((found_RK == own_K).double().mean()) for found_RK in (nearest_RK, closest_RK)]
    return Transfer(shares[0], shares[1], 1 / half)


def _class_sums(values: Tensor, labels_N: Tensor) -> Tensor:
    sums = values.new_zeros(int(labels_N.max()) + 1, values.shape[1])
    return sums.index_add_(0, labels_N, values)
