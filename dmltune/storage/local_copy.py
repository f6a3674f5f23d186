"""The files of an address that are on this machine: a private folder with the layout of a store.

`.mirror.json` in it notes for every file that is the same at both places what both looked like, and what is
to be deleted at the address. Models, checkpoints and pictures are brought when they are needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dmltune.errors import parse_json
from dmltune.storage.addresses import AddressTransport, Stamp

NOTES = ".mirror.json"
DATABASES = ("mlflow.db", "optuna.db")
AT_ONCE = 8  # files under way
_OWN = re.compile(
    r"(^|/)(lock|holder|[^/]*\.lock|\.[^/]*)$|^(mlflow|optuna)\.db|^databases/|^lease\.json$|^state\.json$"
)
_OF_WORKERS = re.compile(r"(^|/)trials/[^/]+/((last|best|images)/|test\.safetensors$)")
_LARGE = re.compile(r"\.safetensors$|(^|/)images/")


def copy_folder(address: str) -> Path:
    """Return this machine's private folder for an address, in $DMLTUNE_CACHE; it is made."""
    shared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dmltune"
    cache = Path(os.environ.get("DMLTUNE_CACHE") or shared).expanduser().absolute()
    readable = re.sub(r"[^A-Za-z0-9]+", "-", address.partition("://")[2])[-40:].strip("-")
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    folder = cache / "stores" / f"{readable}-{digest}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class LocalCopy:
    """Brings files to this machine and to the address. One thread at a time changes the notes."""

    def __init__(self, root: Path, files: AddressTransport) -> None:
        self.root, self._files = root, files
        self._lock = threading.RLock()
        self.generation = 0
        self._same: dict[str, tuple[Stamp, Stamp]] = {}
        self._discarded: list[str] = []
        tree = _read_json(root / NOTES)
        with contextlib.suppress(ValueError, TypeError, AttributeError):  # damaged: all is fetched anew
            self._same = {
                name: (tuple(here), tuple(remote)) for name, (here, remote) in tree.get("files", {}).items()
            }
            self._discarded = [str(name) for name in tree.get("discarded", [])]
            self.generation = int(tree.get("generation", 0))

    # ---- from the address

    def follow(self) -> None:
        """Take what another machine has changed. What this one did not publish before that is dropped."""
        with self._lock:
            remote = self._files.stamps()
            for name in self._here():
                known = self._same.get(name)
                if known is None or known != (self._stamp(name), remote.get(name)):
                    (self.root / name).unlink(missing_ok=True)
                    self._same.pop(name, None)
            self._fetch({name: stamp for name, stamp in remote.items() if not _LARGE.search(name)})
            self._discarded.clear()
            self._note()

    def bring(self, folder: Path, workers_write: bool = False) -> None:
        """Fetch the files of one folder that are not here, and where workers write them, all of theirs."""
        with self._lock:
            prefix = "" if folder == self.root else self._name(folder)
            remote = self._files.stamps(prefix)
            for name in remote:
                if workers_write and _OF_WORKERS.search(name):
                    self._same.pop(name, None)
                    (self.root / name).unlink(missing_ok=True)
            self._fetch(remote)
            self._note()

    def _fetch(self, remote: dict[str, Stamp]) -> None:
        wanted = {
            name: stamp
            for name, stamp in remote.items()
            if not _OWN.search(name) and not ((self.root / name).is_file() and self._is_same(name, stamp))
        }

        def fetch(name: str) -> None:
            if self._files.fetch(name, self.root / name):
                self._same[name] = (self._stamp(name), wanted[name])

        _each(fetch, wanted)

    def _is_same(self, name: str, stamp: Stamp) -> bool:
        """Whether the file here is that of the address, or newer than it."""
        known = self._same.get(name)
        return known is None or known[1] == stamp

    # ---- to the address

    def push(self) -> None:
        """Copy every file that is new or changed to the address, checkpoints after what they refer to."""
        with self._lock:
            changed = [name for name in self._here() if self._same.get(name, (None,))[0] != self._stamp(name)]

            def put(name: str) -> None:
                try:
                    here = self._stamp(name)
                    self._files.put(self.root / name, name)
                except FileNotFoundError:  # removed meanwhile
                    return
                remote = self._files.stamp(name)
                if remote is not None:
                    self._same[name] = (here, remote)

            _each(put, [name for name in changed if not name.endswith("checkpoint.safetensors")])
            _each(put, [name for name in changed if name.endswith("checkpoint.safetensors")])
            if changed:
                self._note()

    def discard(self, folder: Path) -> None:
        """Delete a file or folder here; at the address after the next publication."""
        with self._lock:
            name = self._name(folder)
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
            else:
                folder.unlink(missing_ok=True)
            self._same = {n: s for n, s in self._same.items() if n != name and not n.startswith(f"{name}/")}
            self._discarded.append(name)
            self._note()

    def discarded(self) -> list[str]:
        """Return what is to be deleted at the address."""
        with self._lock:
            return list(self._discarded)

    def forget_discarded(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                self._discarded.remove(name)
            self._note()

    def note_generation(self, generation: int) -> None:
        with self._lock:
            self.generation = generation
            self._note()

    # ---- parts

    def _here(self) -> list[str]:
        names = []
        for folder, _, files in os.walk(self.root):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), self.root)
                if not _OWN.search(name):
                    names.append(name)
        return names

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _stamp(self, name: str) -> Stamp:
        status = (self.root / name).stat()
        return status.st_size, status.st_mtime_ns

    def _note(self) -> None:
        tree = {"generation": self.generation, "files": self._same, "discarded": self._discarded}
        part = self.root / f"{NOTES}.part"
        part.write_text(json.dumps(tree), encoding="utf-8")
        os.replace(part, self.root / NOTES)


def _each(action: Callable[[str], None], names: Iterable[str]) -> None:
    names = list(names)
    if len(names) < 2:
        for name in names:
            action(name)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(action, names))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}
