"""Random numbers that are a function of a seed and a count, the same on every device.

A generator of the CPU needs its seed on the host, one of a device draws by the number of its processors. Here
the numbers are the hash of their place (SplitMix64, Steele et al. 2014), computed where the seed is.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15  # as signed 64 bits
_STREAM = 1 << 32  # numbers of one draw


def uniform(seed: Tensor, draw: Tensor, count: int) -> Tensor:
    """Return float64 numbers in [0, 1), (count,), of the draw with this number; draws do not overlap."""
    place = torch.arange(1, count + 1, device=seed.device) + draw * _STREAM
    bits = _mixed(_mixed(seed + _GOLDEN) + place * _GOLDEN)
    return _shifted(bits, 11).double() * 2.0**-53


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, places: int) -> Tensor:
    """Shift right and fill with zeros; torch repeats the sign."""
    return (x >> places) & ((1 << (64 - places)) - 1)
