"""One file a kind of reference: what the samples of a batch are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from dmltune.core import components

Pool = Callable[[int], tuple[Tensor, Tensor]]
"""`pool(per_class) -> (emb_CbD, valid_Cb)`: fresh samples of every class, embedded by the current model
in inference mode, identical on all ranks. `valid` is False where a class has fewer than b samples."""


class References(nn.Module, ABC):
    """What `Objective` and `fit` ask of every kind of reference. All state lives in parameters and
    buffers.
    """

    normalise: ClassVar[Literal["l2", "lip"]] = "l2"
    pool_size: int = 0

    def __init__(self) -> None:  # its signature is the schema: nothing to set
        super().__init__()

    @abstractmethod
    def forward(self, loss: nn.Module, emb_BD: Tensor, labels_B: Tensor) -> Tensor:
        """The loss of a (joined) batch against the references, a scalar."""

    @property
    def penalises(self) -> bool:
        """Whether `penalty` is anything but zero now (so that nobody flattens the weights for nothing)."""
        return False

    def penalty(self, weights_W: Tensor) -> Tensor:
        """A scalar of the flat vector of trainable embedder weights."""
        return weights_W.new_zeros(())

    def start(self, pool: Pool) -> None:
        """Called once, before the first step of a new run."""

    def after_validation(self, score: float, weights_W: Tensor, pool: Pool) -> dict[str, float]:
        """Called after every validation that follows training, higher scores are better; gives figures to
        log.
        """
        return self.figures()

    def figures(self) -> dict[str, float]:
        """Figures to log with a validation."""
        return {}


def load(name: str, num_classes: int, dim: int, **parameters: Any) -> References:
    """The references `name` for so many training classes and embeddings of so many dimensions."""
    given = {"num_classes": num_classes, "dim": dim}
    references: References = components.build_module("references", name, given, parameters)
    return references
