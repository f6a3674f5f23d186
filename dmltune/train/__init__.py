"""Ray Train: what one worker does, how a worker group is started. Called (`dmltune.train(experiment)`), it
trains.
"""

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
        from dmltune.train.api import train

        return train(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """For help() and editors: importing Ray is left until somebody asks."""
        from dmltune.train.api import train

        return inspect.signature(train)


sys.modules[__name__].__class__ = _Callable
