"""Every loss with the examples of its oracle, and batches for them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmltune.core import components, losses
from dmltune.core.geometry import lip

ORACLES = Path(__file__).parents[1] / "core" / "oracles"
CLASSES, DIM = 5, 4


def oracle_of(name: str) -> Any:
    """Return the module with the oracle of a loss, or None where nobody has written it yet."""
    path = ORACLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"oracle_of_{name}", path) if path.exists() else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def takes_references(name: str) -> bool:
    return bool(getattr(components.find("losses", name), "takes_references", True))


NAMES = components.names("losses")
CASES = [
    pytest.param(name, example, id=f"{name}-{i}")
    for name in NAMES
    for i, example in enumerate(getattr(oracle_of(name), "EXAMPLES", [{}]))
]
PAIRS = [case for case in CASES if takes_references(str(case.values[0]))]
OTHERS = [case for case in CASES if case not in PAIRS]


def make(name: str, example: dict[str, Any], dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    return losses.load(name, num_classes=CLASSES, dim=DIM, **example).to(dtype)


def batch(seed: int, size: int = 9, refs: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = lip(torch.randn(size + refs, DIM, generator=generator, dtype=torch.float64) * 0.7)
    labels = torch.randint(CLASSES, (size + refs,), generator=generator)
    return points[:size], labels[:size], points[size:], labels[size:]
