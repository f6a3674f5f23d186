"""Packages that are called like the function they hold: `dmltune.search(…)`, `train(…)`, `check(…)`.

The function and its package share a name, and importing the package must not hide the function.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package `dmltune.NAME` that calls `dmltune.NAME.api.NAME`, which is imported at the first call."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function()(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """Return the function's signature, for help() and editors."""
        return inspect.signature(self._function())

    def _function(self) -> Callable[..., Any]:
        name = self.__name__.rpartition(".")[2]
        function: Callable[..., Any] = getattr(importlib.import_module(f"{self.__name__}.api"), name)
        return function


def make_callable(package: str) -> None:
    """Let the imported package be called."""
    sys.modules[package].__class__ = CallablePackage
