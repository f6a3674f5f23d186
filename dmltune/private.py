"""Who may read what dmltune writes: its user alone, whatever the umask.

The umask of a process holds for its children too: Ray's workers, MLflow's server. What was downloaded, and
the cache of packed images, is for every user of the machine whom the user's own umask admits.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

OTHERS = 0o077
_users: list[int] = []  # the umasks that `private_files` has replaced, the user's own first


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Let the files and folders that are made during the block be private: 0600 and 0700."""
    _users.append(keep_private())
    try:
        yield
    finally:
        os.umask(_users.pop())


@contextlib.contextmanager
def shared_files() -> Iterator[None]:
    """Let the files that are made during the block have the modes that the user's own umask gives them."""
    before = os.umask(users_umask())
    try:
        yield
    finally:
        os.umask(before)


def keep_private() -> int:
    """Let all that this process makes from now on be private; return the umask before."""
    before = os.umask(OTHERS)
    os.umask(before | OTHERS)
    return before


def users_umask() -> int:
    """Return the umask of the user, not that of `private_files`."""
    if _users:
        return _users[0]
    umask = os.umask(OTHERS)
    os.umask(umask)
    return umask


def private_opener(path: str, flags: int) -> int:
    """Open as `open` does; a new file is private."""
    return os.open(path, flags, 0o600)
