"""A folder that is copied to the store in the background, latest version first.

`submit` notes the present files as hard links, in no time, and returns; a thread sends them. A version that
waits while a newer one comes is dropped. The file `last` of a version is sent after all others, so that what
it refers to is there before it.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

from dmltune.errors import UserError
from dmltune.storage.transport import PATIENCE_S, FileTransport, TransferError, reason_of

Signature = tuple[int, int, int]
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0


class FolderMirror:
    """Mirrors `folder` to `prefix` of the transport; `scratch` is an own folder on the same disk."""

    def __init__(
        self,
        folder: Path,
        prefix: str,
        transport: FileTransport,
        scratch: Path,
        last: str,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._folder, self._prefix, self._transport = folder, prefix, transport
        self._scratch, self._last, self._patience_s = scratch, last, patience_s
        self._sent: dict[str, Signature] = {}
        self._version = 0
        self._waiting: Path | None = None
        self._sending = False
        self._ending = False
        self._error: TransferError | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="folder-mirror", daemon=True)
        self._thread.start()

    def note_fetched(self) -> None:
        """What is in the folder now came from the store."""
        self._sent = {name: _signature(self._folder / name) for name in _names(self._folder)}

    def submit(self) -> None:
        """Send the present files as soon as possible. Raises the error of an earlier version."""
        self._require_success()
        self._version += 1
        version = self._scratch / f"version-{self._version}"
        for name in _names(self._folder):
            link = version / name
            link.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._folder / name, link)
        with self._changed:
            dropped, self._waiting = self._waiting, version
            self._changed.notify_all()
        if dropped is not None:
            shutil.rmtree(dropped, ignore_errors=True)

    def flush(self) -> None:
        """Send the present files, and return when they are there. A TransferError when they are not."""
        self.submit()
        with self._changed:
            self._changed.wait_for(lambda: self._error or (self._waiting is None and not self._sending))
        self._require_success()

    def close(self) -> None:
        """End the thread after the file that it sends; what waits is dropped."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()

    def _require_success(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._ending)
                if self._ending or self._waiting is None:
                    return
                version, self._waiting, self._sending = self._waiting, None, True
            try:
                self._send_patiently(version)
            except TransferError as error:
                self._error = error
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()

    def _send_patiently(self, version: Path) -> None:
        deadline, pause = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        try:
            while not self._ending:
                try:
                    self._send(version)
                    return
                except Exception as error:
                    if isinstance(error, UserError) or time.monotonic() + pause > deadline:
                        raise TransferError(
                            f"the checkpoint did not reach the store ({reason_of(error)}); "
                            f"tried for {self._patience_s:.0f} s"
                        ) from error
                with self._changed:
                    self._changed.wait_for(lambda: self._ending, pause)
                    newer, self._waiting = self._waiting, None
                if newer is not None:
                    shutil.rmtree(version, ignore_errors=True)
                    version = newer
                pause = min(LONGEST_PAUSE_S, 2 * pause)
        finally:
            shutil.rmtree(version, ignore_errors=True)

    def _send(self, version: Path) -> None:
        for name in sorted(_names(version), key=lambda name: (name == self._last, name)):
            if self._ending:
                return
            signature = _signature(version / name)
            if self._sent.get(name) != signature:
                self._transport.put(version / name, f"{self._prefix}/{name}")
                self._sent[name] = signature


def _names(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path.relative_to(folder).as_posix() for path in files]


def _signature(path: Path) -> Signature:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino
