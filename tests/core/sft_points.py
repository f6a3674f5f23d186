"""Points, centres and the explicit matrix for the tests of the Spherical Feature Transform."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmltune.core import transforms
from dmltune.core.geometry import l2_normalise
from dmltune.core.transforms.sft import Sft

CLASSES, DIM = 6, 5


def points(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrix_of_equation_4(source_D: Tensor, target_D: Tensor) -> Tensor:
    m1, m2 = source_D / source_D.norm(), target_D / target_D.norm()
    rest = m2 - (m2 @ m1) * m1
    n1, n2 = m1, rest / rest.norm()
    alpha = math.acos(float(m1 @ m2))
    turn = torch.outer(n2, n1) - torch.outer(n1, n2)
    plane = torch.outer(n1, n1) + torch.outer(n2, n2)
    eye = torch.eye(len(m1), dtype=m1.dtype)
    return eye + turn * math.sin(alpha) + plane * (math.cos(alpha) - 1)


def pair_at(angle: float, seed: int, dim: int = DIM) -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors at an angle, and one at right angles to both."""
    axes, _ = torch.linalg.qr(points(seed, dim, 3))
    s, u, v = axes.T
    return s, math.cos(angle) * s + math.sin(angle) * u, v


def sft(**parameters: Any) -> Sft:
    counts = torch.tensor([40, 2, 33, 5, 21, 14])
    transform = transforms.load("sft", CLASSES, DIM, counts, **parameters).double()
    assert isinstance(transform, Sft)
    return transform


def with_centres(**parameters: Any) -> Sft:
    transform = sft(**parameters)
    transform.centres.values.copy_(points(1, CLASSES, DIM))
    return transform


def batch(seed: int, size: int = 60) -> tuple[Tensor, Tensor, Tensor]:
    raw_BD = points(seed, size, DIM)
    labels_B = torch.randint(CLASSES, (size,), generator=torch.Generator().manual_seed(seed))
    return raw_BD, l2_normalise(raw_BD), labels_B
