"""Pooling as a convex combination of prototypes (chapter 4 of seed 003), and overlap of class hulls.

N local features or points, M prototypes, C classes, D dimensions, H corners of a hull; `...` are leading
(image) dimensions. A feature map becomes features by `map_BDHW.flatten(2).mT`.
"""

from __future__ import annotations

import contextlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmltune.core.geometry import finite, pairwise_distance

_INSIDE = 1e-9  # a point this near to a hull, as a share of the size of all points, is in it

Points = NDArray[np.float64]


def histogram(features_ND: Tensor, prototypes_MD: Tensor) -> Tensor:
    """p* of eq. 4.2.5, (..., M): shares of features by nearest prototype (claim 4.2.1), ties to the lower."""
    count, prototypes = features_ND.shape[-2], len(prototypes_MD)
    if not (count and prototypes):
        raise ValueError(f"needs a feature and a prototype at least; got {count} and {prototypes}")
    distance_XM = pairwise_distance(features_ND.flatten(0, -2), prototypes_MD)
    distance_NM = distance_XM.view(*features_ND.shape[:-1], prototypes)
    counts_M = torch.zeros_like(distance_NM[..., 0, :])
    nearest_N = distance_NM.argmin(-1)
    return counts_M.scatter_add_(-1, nearest_N, torch.ones_like(distance_NM[..., 0])) / count


def convex_combination(features_ND: Tensor, prototypes_MD: Tensor) -> Tensor:
    """PCC = Σ_i p*_i ν_i, (..., D): average pooling with each feature moved to its prototype."""
    p_M = histogram(features_ND, prototypes_MD)
    return p_M @ prototypes_MD.to(p_M.dtype)


@torch.no_grad()
def convex_hull_overlap(emb_ND: Tensor, labels_N: Tensor) -> float:
    """Return the share of the points in (or on) the convex hull of another class; 0 for hulls apart.

    In the plane, exactly, by the edges of the hulls. In more dimensions by one non-negative least-squares
    problem a point and class whose bounding box holds it (scipy). There, points in general position are in no
    hull before a class has more than D of them: the thesis' pictures show two principal axes.
    """
    points_ND, groups = _groups(emb_ND, labels_N)
    inside_N = np.zeros(len(points_ND), dtype=bool)
    for group in groups:
        tested = np.setdiff1d(np.flatnonzero(~inside_N), group, assume_unique=True)
        corners_HD = points_ND[group]
        low_D, high_D = corners_HD.min(0) - _INSIDE, corners_HD.max(0) + _INSIDE
        tested = tested[((points_ND[tested] >= low_D) & (points_ND[tested] <= high_D)).all(1)]
        inside_N[tested] = _in_hull(points_ND[tested], corners_HD)
    return float(inside_N.mean()) if len(inside_N) else 0.0


@torch.no_grad()
def hulls_overlap(emb_ND: Tensor, labels_N: Tensor) -> Tensor:
    """Return (C, C) whether the hulls of two classes have a common point, in any dimension."""
    points_ND, groups = _groups(emb_ND, labels_N)
    meet_CC = torch.eye(len(groups), dtype=torch.bool)
    for c, own in enumerate(groups):
        for d in range(c):
            other = groups[d]
            # Σ λ_i x_i = Σ μ_j y_j with Σ λ = Σ μ = 1
            columns = np.block(
                [
                    [points_ND[own].T, -points_ND[other].T],
                    [np.ones((1, len(own))), np.zeros((1, len(other)))],
                    [np.zeros((1, len(own))), np.ones((1, len(other)))],
                ]
            )
            goal = np.append(np.zeros(points_ND.shape[1]), [1.0, 1.0])
            meet_CC[c, d] = meet_CC[d, c] = _residual(columns, goal) <= _INSIDE
    return meet_CC


def _groups(emb_ND: Tensor, labels_N: Tensor) -> tuple[Points, list[NDArray[np.int64]]]:
    """Move and scale the points into the unit ball; return them and the places of each class."""
    points_ND = finite(emb_ND).double().cpu().numpy()
    if len(points_ND):
        points_ND = points_ND - points_ND.mean(0)
        size = np.linalg.norm(points_ND, axis=1).max()
        points_ND = points_ND / (size if size > 0 else 1.0)
    labels = labels_N.cpu().numpy()
    return points_ND, [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _in_hull(points_ND: Points, corners_HD: Points) -> NDArray[np.bool_]:
    """In the plane by the edges of the hull, unless it is a point or a segment."""
    from scipy.spatial import ConvexHull, QhullError

    if points_ND.shape[1] == 2 and len(corners_HD) > 2:
        with contextlib.suppress(QhullError):
            edges_E3 = ConvexHull(corners_HD).equations
            inside: NDArray[np.bool_] = (points_ND @ edges_E3[:, :2].T + edges_E3[:, 2] <= _INSIDE).all(1)
            return inside
    columns = np.vstack([corners_HD.T, np.ones(len(corners_HD))])
    return np.array([_residual(columns, np.append(x, 1.0)) <= _INSIDE for x in points_ND], dtype=bool)


def _residual(columns: Points, goal: Points) -> float:
    """min over λ ≥ 0 of ‖columns λ − goal‖."""
    from scipy.optimize import nnls

    return float(nnls(columns, goal)[1])
