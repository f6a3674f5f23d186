"""Whether a computation must do without values on the host: on a device, and under torch.compile.

Where a value decides about a shape or a branch, the host waits until the device has computed it. On a CPU
that costs nothing, and working on a few chosen entries is faster; there the choice is made. Elsewhere all
entries are computed and masks choose. Both ways give the same numbers up to rounding; tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_always = False


def fixed_shapes(x: Tensor) -> bool:
    """Return whether shapes and branches must not depend on the values of `x` (or of its like)."""
    return _always or x.device.type != "cpu" or torch.compiler.is_compiling()


@contextmanager
def always() -> Iterator[None]:
    """Compute on the CPU as on a device, until the block ends."""
    global _always
    before, _always = _always, True
    try:
        yield
    finally:
        _always = before
