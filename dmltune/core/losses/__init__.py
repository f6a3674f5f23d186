"""One file a loss. `module(emb_BD, labels_B, refs_RD=None, ref_labels_R=None)` gives a scalar.

With references the pairs are sample × reference only; without, the batch with itself minus the pairs of a
sample with itself. Points are taken as they are: a loss does not normalise its inputs.

A loss with proxies of its own, the parameter `proxies`, has `takes_references: ClassVar[bool] = False` and
refuses references with a UserError (`refuse_references`). To a loss with `skips_negative_labels:
ClassVar[bool] = True` points with a label below 0 take no part: the value is that without them. Others never
get such labels, and choosing the points for them costs a host read on a GPU.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from dmltune.core import components
from dmltune.errors import UserError


def refuse_references(loss: nn.Module, refs_RD: Tensor | None) -> None:
    if refs_RD is not None:
        raise UserError(
            f"{type(loss).__name__} compares with proxies of its own and takes no other references. "
            "Use references: batch."
        )


def load(name: str, num_classes: int | None = None, dim: int | None = None, **parameters: Any) -> nn.Module:
    """Return the loss `name` with these parameters."""
    given = {"num_classes": num_classes, "dim": dim}
    loss: nn.Module = components.build_module("losses", name, given, parameters)
    return loss
