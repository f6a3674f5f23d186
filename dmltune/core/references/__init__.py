"""One file a kind of references: the points that the samples of a batch are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from dmltune.core import components

Pool = Callable[[int], tuple[Tensor, Tensor]]
"""`pool(per_class) -> (emb_CbD, valid_Cb)`: fresh samples of every class, equal on all ranks.

The current model embeds them in inference mode. `valid` is False where a class has fewer than b samples.
"""


class References(nn.Module, ABC):
    """Interface of references for `Objective` and `fit`. All state lives in parameters and buffers."""

    normalise: ClassVar[Literal["l2", "lip"]] = "l2"
    follows_score: ClassVar[bool] = False
    """Whether scores change it: then it is monitored between validations, too."""
    pool_size: int = 0

    def __init__(self) -> None:  # its signature is the schema: nothing to set
        super().__init__()

    @abstractmethod
    def forward(self, loss: nn.Module, emb_BD: Tensor, labels_B: Tensor) -> Tensor:
        """The loss of a (joined) batch against the references, a scalar."""

    @property
    def penalises(self) -> bool:
        """Whether `penalty` is not zero now; otherwise the weights need not be flattened."""
        return False

    def penalty(self, weights_W: Tensor) -> Tensor:
        """Return a scalar of the flat vector of trainable embedder weights."""
        return weights_W.new_zeros(())

    def start(self, pool: Pool) -> None:
        """Start a new run; called once before the first step."""

    def after_validation(self, score: float, weights_W: Tensor, pool: Pool) -> dict[str, float]:
        """Update after a validation or monitoring (higher scores are better); return figures to log."""
        return self.figures()

    def figures(self) -> dict[str, float]:
        """Return figures to log with a validation."""
        return {}

    def idle(self) -> dict[str, str]:
        """Return parameter → why it has had no effect so far, and the remedy."""
        return {}


def load(name: str, num_classes: int, dim: int, **parameters: Any) -> References:
    """Return the references `name` for these numbers of training classes and dimensions."""
    given = {"num_classes": num_classes, "dim": dim}
    references: References = components.build_module("references", name, given, parameters)
    return references
