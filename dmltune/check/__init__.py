"""The reality check after a search: folds × seeds on the test classes, with statistics. Called
(`dmltune.check("demo")`), it checks.
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
        from dmltune.check.api import check

        return check(*args, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """For help() and editors: importing Ray is left until somebody asks."""
        from dmltune.check.api import check

        return inspect.signature(check)


sys.modules[__name__].__class__ = _Callable
