"""Hulls of the active prototypes of classes: drawn, and how many overlap."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes

from dmltune.core.convex import convex_hull_overlap, hulls_overlap
from dmltune.reproduce.figures._local_features import ACTIVE, LocalFeatures


def active_prototypes(local: LocalFeatures) -> list[torch.Tensor]:
    """Return the active prototypes of each class, (·, D): those with a share of ACTIVE or more."""
    return [local.prototypes_MD[mass_M >= ACTIVE] for mass_M in local.mass_CM()]


def overlapping_pairs(local: LocalFeatures) -> tuple[int, int]:
    """Return how many pairs of classes have hulls with a common point, and of how many."""
    active = active_prototypes(local)
    points = torch.cat(active)
    labels = torch.repeat_interleave(torch.arange(len(active)), torch.tensor([len(own) for own in active]))
    count = len(active)
    return int(hulls_overlap(points, labels).triu(1).sum()), count * (count - 1) // 2


def in_foreign_hulls(local: LocalFeatures) -> float:
    """Return the share of images whose pooled point is in the hull of another class's images."""
    return convex_hull_overlap(local.pooled_BD, local.labels_B)


def draw_hulls(axis: Axes, local: LocalFeatures, title: str) -> None:
    """Draw pooled points of the images by class, and the hull of the active prototypes of each class."""
    from matplotlib import colormaps
    from scipy.spatial import ConvexHull, QhullError

    colours = colormaps["tab10"]
    pooled = local.pooled_BD.numpy()
    for label, active in enumerate(active_prototypes(local)):
        own = pooled[local.labels_B.numpy() == label]
        axis.scatter(own[:, 0], own[:, 1], color=colours(label % 10), s=7, lw=0, label=local.names[label])
        corners = active.numpy()
        try:
            order = ConvexHull(corners).vertices if len(corners) > 2 else np.arange(len(corners))
        except QhullError:  # on a line
            order = np.arange(len(corners))
        axis.fill(*corners[order].T, color=colours(label % 10), alpha=0.12, lw=0)
        closed = corners[[*order, *order[:1]]]
        axis.plot(closed[:, 0], closed[:, 1], color=colours(label % 10), lw=1.0)
    centres = local.prototypes_MD.numpy()
    axis.scatter(centres[:, 0], centres[:, 1], c="black", marker="x", s=16, lw=0.8)
    axis.set_aspect("equal")
    axis.set_title(title, fontsize=9)
