"""One driver at a time writes to an address: the lease, a file that its owner renews.

Whether an owner lives is seen from the lease alone: its counter grows every `BEAT_S` seconds. Clocks of
machines are not compared. Object stores have no lock, so a new owner reads its lease back, and every renewal
looks whether another one has taken it; then this driver stops writing.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

from dmltune.errors import UserError
from dmltune.provenance import has_ended
from dmltune.storage.addresses import AddressTransport

FILE = "lease.json"
BEAT_S = 4.0
EXPIRES_S = 20.0  # a lease that did not change for so long has lost its owner
SETTLE_S = 0.3


class LostLease(UserError):
    """Another driver has taken the address."""


class Lease:
    """The lease of one address, for one process (host:pid:start)."""

    def __init__(self, files: AddressTransport, process: str) -> None:
        self._files, self._process = files, process
        self._id, self._count = secrets.token_hex(8), 0

    def take(self, wait_s: float = EXPIRES_S) -> None:
        """Take the lease; a UserError while its owner lives."""
        began, first = time.monotonic(), self._read()
        now = first
        while _is_held(now) and not has_ended(str(now.get("process", ""))):
            if now != first:
                raise UserError(
                    f"the store {self._files.address} is in use by {_shown(now)}. "
                    "Wait for it, stop it there, or choose another --store."
                )
            if time.monotonic() - began > wait_s:
                break
            time.sleep(1.0)
            now = self._read()
        self._write()
        time.sleep(SETTLE_S)
        self.require()

    def renew(self) -> None:
        self.require()
        self._count += 1
        self._write()

    def require(self) -> None:
        """Raise a LostLease when the lease is another one's."""
        now = self._read()
        if now.get("id") != self._id:
            raise LostLease(
                f"the store {self._files.address} was taken over by {_shown(now)}; "
                "this process stops. The same command continues when that one has ended."
            )

    def release(self) -> None:
        if self._read().get("id") == self._id:
            self._files.write(FILE, b"{}")

    def _read(self) -> dict[str, Any]:
        try:
            return self._files.read_json(FILE)
        except ValueError:
            return {}

    def _write(self) -> None:
        tree = {"id": self._id, "process": self._process, "count": self._count}
        self._files.write(FILE, json.dumps(tree).encode())


def _is_held(tree: dict[str, Any]) -> bool:
    return bool(tree.get("id"))


def _shown(tree: dict[str, Any]) -> str:
    host, _, rest = str(tree.get("process", "")).partition(":")
    pid = rest.partition(":")[0]
    return f"process {pid} on {host}" if host and pid else "another process"
