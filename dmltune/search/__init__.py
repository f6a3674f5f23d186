"""Ray Tune + Optuna: which trials run. Called (`dmltune.search(experiment, space_name=…)`), it searches."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The public function and this package share their name; importing the package must not hide the
    function.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        from dmltune.search.api import search

        return search(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """For help() and editors: importing Ray is left until somebody asks."""
        from dmltune.search.api import search

        return inspect.signature(search)


sys.modules[__name__].__class__ = _Callable
