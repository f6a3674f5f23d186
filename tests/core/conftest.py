"""Fixtures of the core's tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parent


def load_by_path(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"core_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _one_thread_and_a_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """The small problem of toy.py."""
    return load_by_path(FOLDER / "toy.py")
