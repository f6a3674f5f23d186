"""One file a transform: it generates further points, with labels, from the points of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from dmltune.core import components


class Transform(nn.Module, ABC):
    """Interface of transforms for `Objective`: J(X, Y) + weight · J(X_gen, Y_gen) (eq. 10 of seed 001).

    Both methods see the joined batch, the same on all ranks; all state lives in buffers, and random choices
    come from a generator that is seeded by them.
    """

    weight: float = 0.0

    def __init__(self) -> None:  # nn.Module's takes anything, and a signature is a schema
        super().__init__()

    @abstractmethod
    def generate(self, raw_BD: Tensor, emb_BD: Tensor, labels_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return unit points with gradient (G, D) and labels (G,) of pooled (raw) and unit points.

        A label below 0 marks a point that takes no part, where shapes must not depend on values.
        """

    def idle(self) -> dict[str, str]:
        """Return parameter → why it has had no effect so far, and the remedy."""
        if self.weight:
            return {}
        others = set(components.parameters(type(self))) - {"weight"}
        return dict.fromkeys(sorted(others), "transform.weight is 0")

    def update_(self, raw_BD: Tensor, emb_BD: Tensor, labels_B: Tensor) -> None:
        """Update the state by the batch; called after `generate` (algorithm 1, lines 5 and 6)."""


def load(
    name: str, num_classes: int, dim: int, class_counts: Tensor | None = None, **parameters: Any
) -> Transform:
    """Return the transform `name` for these numbers of classes, dimensions and samples a class."""
    given: dict[str, Any] = {"num_classes": num_classes, "dim": dim}
    if class_counts is not None:
        given["class_counts"] = class_counts
    transform: Transform = components.build_module("transforms", name, given, parameters)
    return transform
