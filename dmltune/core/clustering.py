"""How well a clustering agrees with the labels: NMI and pairwise F1, and the k-means to get one.

N points, D dimensions; n_ij of the points of class i are in cluster j, a_i in class i, b_j in cluster j.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MANY = 1000
"""From so many clusters on, k-means starts from random points: k-means++ alone would cost O(N·k·D·log k)
distances one centre after the other, hours for the 11,316 classes of SOP."""


def clustering_metrics(labels: Any, assignments: Any) -> dict[str, float]:
    """nmi = 2·I / (H_classes + H_clusters) (arithmetic mean) and f1 of "is this pair of points together?".

    Both are 1 for the same partition, also where the formula is 0/0 (one class and one cluster; all alone).
    O(N log N): only the n_ij that are not 0 are held. Tensors, arrays or sequences of N whole numbers.
    """
    class_N, cluster_N = _places(labels), _places(assignments)
    if not 0 < len(class_N) == len(cluster_N):
        raise ValueError(f"every point needs a label and a cluster; got {len(class_N)} and {len(cluster_N)}")
    cell_N = class_N * (cluster_N.max() + 1) + cluster_N
    first, n_ij = np.unique(cell_N, return_index=True, return_counts=True)[1:]
    a_i, b_j = np.bincount(class_N), np.bincount(cluster_N)
    apart = _entropy(a_i) + _entropy(b_j)
    expected = a_i[class_N[first]] / len(class_N) * b_j[cluster_N[first]]
    information = float((n_ij / len(class_N) * np.log(n_ij / expected)).sum())
    pairs = _pairs(a_i) + _pairs(b_j)
    return {
        "nmi": min(1.0, max(0.0, 2 * information / apart)) if apart > 0 else 1.0,
        "f1": 2 * _pairs(n_ij) / pairs if pairs else 1.0,
    }


def cluster(emb_ND: Tensor, k: int, seed: int) -> Tensor:
    """The k-means clusters of the points, (N,) in 0 … k − 1: one start from `seed`, Lloyd's iterations."""
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    if not 1 <= k <= len(emb_ND):
        raise ValueError(f"k must be between 1 and the {len(emb_ND)} points; got {k}")
    if not bool(emb_ND.isfinite().all()):
        raise ValueError("embeddings must be finite")
    half = emb_ND.dtype in (torch.float16, torch.bfloat16)
    points_ND = (emb_ND.float() if half else emb_ND).detach().cpu().numpy()
    means = KMeans(k, init="k-means++" if k < _MANY else "random", n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters: collapsed
        found_N = means.fit_predict(points_ND)
    return torch.from_numpy(found_N.astype(np.int64)).to(emb_ND.device)


def _places(values: Any) -> NDArray[np.int64]:
    """0 … number of different values − 1 in place of the values."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)


def _entropy(counts: NDArray[np.int64]) -> float:
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def _pairs(counts: NDArray[np.int64]) -> int:
    return int((counts * (counts - 1) // 2).sum())
