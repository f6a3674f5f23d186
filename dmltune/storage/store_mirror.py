"""A store at an address: databases on this machine, published to the address in the background.

state.json          number of the publication, its databases and their checksums; written last
databases/          copies of the databases, two publications of them
lease.json          which driver writes here
artifacts/, searches/, test_ledger.jsonl     as in a folder

A publication is complete or not there: the databases are copied as they are at one moment, then the files
that they refer to, then the copies, then state.json. What was deleted here is deleted there after that.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from dmltune.errors import UserError
from dmltune.provenance import this_process
from dmltune.scratch import scratch_folder
from dmltune.storage import snapshots
from dmltune.storage.addresses import ANSWER_S, AddressTransport, within
from dmltune.storage.file_lock import locked
from dmltune.storage.lease import BEAT_S, Lease, LostLease
from dmltune.storage.local_copy import DATABASES, LocalCopy, copy_folder
from dmltune.storage.transport import ADDRESS_PATIENCE_S, PATIENCE_S, T, file_digest, patiently, reason_of

log = logging.getLogger(__name__)
STATE = "state.json"
PAUSE_S = 2.0  # between two publications, at least
SHARE = 5  # and so many times as long as the last one took
WAIT_S = 10.0  # for another process of this machine
END_S = 120.0  # how long the last publication is tried


@lru_cache(maxsize=8)
def mirror_of(address: str) -> StoreMirror:
    """Return the mirror of an address, one for each in this process."""
    return StoreMirror(address, copy_folder(address))


class StoreMirror:
    """The copy of one address on this machine."""

    def __init__(self, address: str, root: Path) -> None:
        self.address, self.root = address, root
        self.files = AddressTransport(address)
        self.failure: UserError | None = None
        self._copy = LocalCopy(root, self.files)
        self._marks: dict[str, tuple[int, ...]] = {}
        self.workers_write = False  # workers of a cluster write checkpoints to the address
        self._owners = 0
        self._held = contextlib.ExitStack()
        self._lease: Lease | None = None
        self._publishing = threading.Lock()
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self.files.require_access(write=False)
        with contextlib.suppress(BlockingIOError), contextlib.ExitStack() as stack:
            stack.enter_context(locked(root / ".following", WAIT_S))
            # held by an owner on this machine, which has the newest state
            stack.enter_context(locked(root / ".owner", 0.0, shared=True))
            self._follow()

    def _follow(self) -> None:
        """Take what was published since."""
        try:
            self._follow_publication()
        except OSError as error:
            raise UserError(f"the store {self.address} cannot be read: {reason_of(error)}") from None

    def _follow_publication(self) -> None:
        state = self._state()
        generation = int(state["generation"])
        self._copy = LocalCopy(self.root, self.files)
        if generation < self._copy.generation:
            raise UserError(
                f"the store {self.address} has publication {generation or 'none'}, this machine has its "
                f"publication {self._copy.generation} in {self.root}. Restore the address, or remove that "
                "folder to follow the address."
            )
        if generation == self._copy.generation:
            return
        self._copy.follow()
        self._follow_databases(state)
        self._copy.note_generation(generation)

    def _follow_databases(self, state: dict[str, Any]) -> None:
        with scratch_folder() as scratch:
            for name, entry in state["databases"].items():
                copy = scratch / Path(name).name
                found = name in DATABASES and self.files.fetch(str(entry["file"]), copy)
                if not found or file_digest(copy) != entry["sha256"]:
                    raise UserError(
                        f"{name} at {self.address} is damaged or missing. Restore the address from a backup."
                    )
                snapshots.restore(copy, self.root / name)

    # ---- one owner

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Own the address while the block runs; when it ends all is published, or this is a UserError."""
        if not self._owners:
            self._begin()
        self._owners += 1
        try:
            yield
        except BaseException:
            self._owners -= 1
            with contextlib.suppress(UserError):  # the first error is the one to show
                self._end()
            raise
        self._owners -= 1
        self._end()

    def _begin(self) -> None:
        self.files.require_access(write=True)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(self.root / ".owner", WAIT_S))
            except BlockingIOError:
                raise UserError(
                    f"the store {self.address} is in use by another process on this machine. "
                    "Wait for it, stop it, or choose another --store."
                ) from None
            lease = Lease(self.files, this_process())
            self._one_line(lease.take)
            self._lease, self.failure = lease, None
            stack.callback(self._release)
            self._ending.clear()
            self._start(self._beat)
            self._one_line(self._follow)  # before the owner reads anything
            self._start(self._publish_often)
            self._held = stack.pop_all()

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True, name=f"store{target.__name__}")
        thread.start()
        self._threads.append(thread)

    def _release(self) -> None:
        """End the threads, then give the lease to others."""
        self._ending.set()
        for thread in self._threads:
            thread.join(END_S)
        self._threads.clear()
        lease, self._lease = self._lease, None
        with contextlib.suppress(Exception):
            if lease is not None:
                lease.release()

    def _end(self) -> None:
        if self._owners:
            return
        try:
            self.publish_now()
        except UserError as error:
            if isinstance(error, LostLease):
                raise
            raise UserError(
                f"the results are on this machine alone, in {self.root}: {error}. "
                "The same command delivers them when the address answers."
            ) from None
        finally:
            self._held.close()

    def _beat(self) -> None:
        while not self._ending.wait(BEAT_S):
            try:
                if self._lease is not None:
                    self._lease.renew()
            except LostLease as error:
                self.failure = error
                return
            except Exception as error:
                log.info("the lease of %s was not renewed: %s", self.address, reason_of(error))

    # ---- publications

    def _publish_often(self) -> None:
        failing, pause = False, PAUSE_S
        while not self._ending.wait(pause) and self.failure is None:
            began = time.monotonic()
            try:
                self.publish()
                failing = False
            except UserError as error:
                self.failure = error
            except Exception as error:
                if not failing:
                    log.warning(
                        "%s does not take the results, trying again: %s", self.address, reason_of(error)
                    )
                failing = True
            pause = max(PAUSE_S, SHARE * (time.monotonic() - began))

    def publish(self) -> None:
        """Bring the address to the state of this machine."""
        with self._publishing, scratch_folder() as scratch:
            if self._lease is not None:
                self._lease.require()
            discarded = self._copy.discarded()
            databases = [self.root / name for name in DATABASES if (self.root / name).is_file()]
            marks = {path.name: snapshots.change_marks(path) for path in databases}
            changed = marks != self._marks
            copies = snapshots.snapshot(databases, scratch) if changed else []
            self._copy.push()
            if changed or discarded:
                self._publish_state(copies)
                self._marks = marks
            for name in discarded:
                self.files.remove(name)
            self._copy.forget_discarded(discarded)

    def _publish_state(self, copies: list[Path]) -> None:
        state = self._state()
        generation = max(int(state["generation"]), self._copy.generation) + 1
        databases = dict(state.get("databases", {}))
        for copy in copies:
            digest, before = file_digest(copy), databases.get(copy.name, {})
            if digest != before.get("sha256"):
                name = f"databases/{copy.stem}-{generation:08d}.db"
                self.files.put(copy, name)
                databases[copy.name] = {"file": name, "sha256": digest}
        text = json.dumps(
            {"generation": generation, "databases": databases, "writer": this_process()}, indent=1
        )
        self.files.write(STATE, text.encode())
        self._copy.note_generation(generation)
        used = {
            str(entry["file"]) for tree in (state.get("databases", {}), databases) for entry in tree.values()
        }
        for name in self.files.names("databases"):
            if name not in used:
                self.files.remove(name)

    # ---- files

    def bring(self, folder: Path) -> None:
        """Let the files of this folder be on this machine."""
        self._patiently(lambda: self._copy.bring(folder, self.workers_write), "fetching from")

    def publish_now(self) -> None:
        """Publish, and repeat it while it fails; a UserError after `END_S` seconds."""
        if self.failure is not None:
            raise self.failure
        patiently(self.publish, f"publishing to {self.address}", END_S)

    def subfolders(self, folder: Path) -> set[str]:
        """Return the names of the folders that the address has in this one."""
        prefix = folder.relative_to(self.root).as_posix()
        found = self._patiently(lambda: self.files.names(prefix), "reading")
        return {name.removeprefix(f"{prefix}/").partition("/")[0] for name in found}

    def _patiently(self, action: Callable[[], T], what: str) -> T:
        """Repeat what fails; an owner waits for an outage as long as its workers do."""
        seconds = ADDRESS_PATIENCE_S if self._owners else PATIENCE_S
        return patiently(action, f"{what} {self.address}", seconds)

    def discard(self, path: Path) -> None:
        self._copy.discard(path)

    def _state(self) -> dict[str, Any]:
        """Return the generation and the databases that were published last; an OSError may pass."""
        try:
            tree = within(ANSWER_S, lambda: self.files.read_json(STATE))
            databases = tree.get("databases", {})
            if not all({"file", "sha256"} <= entry.keys() for entry in databases.values()):
                raise KeyError
            return {"generation": int(tree.get("generation", 0)), "databases": databases}
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise UserError(
                f"{STATE} at {self.address} is damaged. Restore the address from a backup."
            ) from None

    def _one_line(self, action: Callable[[], object]) -> None:
        try:
            action()
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"the store {self.address} cannot be written: {reason_of(error)}") from None
