"""Agreement of a clustering with the labels (NMI and pairwise F1), and k-means.

N points, D dimensions; n_ij of the points of class i are in cluster j, a_i in class i, b_j in cluster j.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmltune.core.geometry import at_least_float32, finite

_MANY = 1000
"""From this many clusters on, k-means++ is not used: it costs O(N·k·D·log k), hours for 11,316 classes."""
_ITERATIONS = 300
_CONVERGED = 1e-5  # relative improvement of the objective below which faiss stops


def clustering_metrics(labels: Any, assignments: Any) -> dict[str, float]:
    """Return nmi = 2·I / (H_classes + H_clusters) (arithmetic mean) and f1 of pairs in a common cluster.

    Both are 1 for the same partition, also where the formula is 0/0 (one class and one cluster; all alone).
    O(N log N): only the n_ij that are not 0 are held. Takes tensors, arrays or sequences of N whole numbers.
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
    """Return the k-means clusters of the points, (N,) in 0 … k − 1; the same ones for the same seed.

    Few clusters start from k-means++ (scikit-learn). Many start from AFK-MC², which samples k-means++, where
    faiss is installed (in float32), else from random points. Measured on 60,502 points of 128 dimensions in
    11,316 classes with 2 threads: F1 0.622 in 34 s by faiss, 0.575 in 24 s from random points.
    """
    if not 1 <= k <= len(emb_ND):
        raise ValueError(f"k must be between 1 and the {len(emb_ND)} points; got {k}")
    points_ND = at_least_float32(finite(emb_ND)).detach().cpu().numpy()
    faiss = _faiss() if k >= _MANY else None
    cluster_N = _by_sklearn(points_ND, k, seed) if faiss is None else _by_faiss(faiss, points_ND, k, seed)
    return torch.from_numpy(cluster_N.astype(np.int64)).to(emb_ND.device)


def _by_sklearn(points_ND: NDArray[Any], k: int, seed: int) -> NDArray[Any]:
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    means = KMeans(k, init="k-means++" if k < _MANY else "random", n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters
        clusters: NDArray[Any] = means.fit_predict(points_ND)
    return clusters


def _by_faiss(faiss: Any, points_ND: NDArray[Any], k: int, seed: int) -> NDArray[Any]:
    points_ND = np.ascontiguousarray(points_ND, dtype=np.float32)
    means = faiss.Kmeans(
        points_ND.shape[1],
        k,
        niter=_ITERATIONS,
        seed=seed,
        init_method=faiss.ClusteringInitMethod_AFK_MC2,
        early_stop_threshold=_CONVERGED,
        min_points_per_centroid=1,
        max_points_per_centroid=len(points_ND),
    )
    means.train(points_ND)
    clusters: NDArray[Any] = means.index.search(points_ND, 1)[1][:, 0]
    return clusters


def _faiss() -> Any:
    """Return the module, or None if it is not installed or older than AFK-MC²."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of its SWIG types
            import faiss
    except ImportError:
        return None
    return faiss if hasattr(faiss, "ClusteringInitMethod_AFK_MC2") else None


def _places(values: Any) -> NDArray[np.int64]:
    """Return 0 … number of different values − 1 in place of the values."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)


def _entropy(counts: NDArray[np.int64]) -> float:
    share = counts / counts.sum()
    return float(-(share * np.log(share)).sum())


def _pairs(counts: NDArray[np.int64]) -> int:
    return int((counts * (counts - 1) // 2).sum())
