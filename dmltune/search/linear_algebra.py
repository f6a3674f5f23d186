"""Linear algebra with one thread.

One is enough for the matrices of a search. Beside workers that use all cores, threads that wait for one
another made a likelihood 30 to 150 times slower; and a proposal's last digits would depend on the machine.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Limit every BLAS that is loaded by now to one thread, until the context ends.

    They are looked up each time (2 ms), because a package that is imported later may bring another one.
    """
    limited: AbstractContextManager[Any] = ThreadpoolController().limit(limits=1, user_api="blas")
    return limited
