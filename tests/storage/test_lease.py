"""One driver at a time writes to an address: the lease, on two kinds of object stores."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from dmltune.provenance import this_process
from dmltune.storage.addresses import AddressTransport
from dmltune.storage.lease import FILE as LEASE
from dmltune.storage.lease import Lease, LostLease


def test_the_lease_of_a_process_that_was_killed_is_taken_over(address: str) -> None:
    code = "from dmltune.provenance import this_process; print(this_process())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    files = AddressTransport(address)
    killed, new = Lease(files, ended.stdout.strip()), Lease(files, this_process())
    killed.take()
    began = time.monotonic()
    new.take()
    assert time.monotonic() - began < 5
    with pytest.raises(LostLease, match="taken over by process"):
        killed.renew()


def test_a_lease_that_is_read_while_its_owner_renews_it_is_not_lost(address: str) -> None:
    """An object store tells the size first, and sends that many bytes of whatever is there then."""
    files = AddressTransport(address)
    lease = Lease(files, this_process())
    lease.take()
    ending = threading.Event()

    def renew() -> None:
        owner = Lease(AddressTransport(address), "host:1:1")
        owner._id = lease._id
        while not ending.is_set():
            owner._process = "host:1:" + "1" * (1 if len(owner._process) > 100 else 200)
            owner._write()

    writer = threading.Thread(target=renew)
    writer.start()
    try:
        for _ in range(150):
            lease.require()
    finally:
        ending.set()
        writer.join()


def test_a_lease_that_nobody_renews_expires(address: str) -> None:
    files = AddressTransport(address)
    Lease(files, "other-host:1:1").take()
    new = Lease(files, this_process())
    new.take(wait_s=1.5)
    new.renew()
    assert b"other-host" not in (files.read(LEASE) or b"")
