"""Files through Ray: an actor on the driver's node writes and reads them below one folder.

Workers whose disk is not the driver's send their checkpoints and models in chunks of `CHUNK` bytes, at most
`WINDOW` of them on their way, so that a large file needs little memory. A chunk is written to its place in a
hidden file, and the commit, which compares size and checksum, puts that file in the place of the old one.
The actor keeps nothing in memory: after a restart the next chunk continues the same hidden file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections import deque
from pathlib import Path
from typing import Any

from dmltune.storage.transport import CHUNK, WINDOW, TransferError, file_digest, require_name

_UPLOAD = re.compile(r"[0-9a-f]{16}")
Identity = tuple[int, int, int]  # size, time of change, inode


class Receiver:
    """Runs as a Ray actor without CPU; works as a plain object in tests."""

    def __init__(self, root: str, writable: bool = True) -> None:
        self._root = Path(root)
        self._writable = writable

    def sees(self, probe: str, token: str) -> bool:
        """Whether this actor is where the driver's files are."""
        return sees(probe, token)

    def write(self, name: str, upload: str, offset: int, chunk: bytes) -> None:
        part = self._part(name, upload)
        part.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            view = memoryview(chunk)
            while view:
                written = os.pwrite(descriptor, view, offset)
                offset, view = offset + written, view[written:]
        finally:
            os.close(descriptor)

    def commit(self, name: str, upload: str, size: int, digest: str) -> None:
        """Put what was written in the place of `name`. The same commit again changes nothing."""
        part, path = self._part(name, upload), self._path(name)
        if not part.is_file():
            if path.is_file() and path.stat().st_size == size and file_digest(path) == digest:
                return
            raise OSError(f"{name} was not received")
        if part.stat().st_size != size or file_digest(part) != digest:
            part.unlink(missing_ok=True)
            raise OSError(f"{name} arrived with a wrong checksum")
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
        for left_over in path.parent.glob(f".{path.name}.*"):  # of a sender that was killed
            left_over.unlink(missing_ok=True)

    def describe(self, name: str) -> Identity | None:
        """Return what tells one version of a file from another; None when there is none."""
        try:
            status = self._path(name).stat()
        except FileNotFoundError:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def read(self, name: str, offset: int, size: int, identity: Identity) -> bytes | None:
        """Return a chunk; None when another file has taken the place of the one with this identity."""
        try:
            with self._path(name).open("rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_size, status.st_mtime_ns, status.st_ino) != tuple(identity):
                    return None
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            return None

    def digest(self, name: str, identity: Identity) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            digest = file_digest(self._path(name))
            return digest if self.describe(name) == tuple(identity) else None
        return None

    def names(self, prefix: str) -> list[str]:
        folder = self._path(prefix)
        files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self._root).as_posix() for path in files)

    def _path(self, name: str) -> Path:
        path = self._root / require_name(name)
        if not path.parent.resolve().is_relative_to(self._root.resolve()):  # by way of a link
            raise TransferError(f"a file of the store must stay inside it; got '{name}'")
        return path

    def _part(self, name: str, upload: str) -> Path:
        if not self._writable or not _UPLOAD.fullmatch(upload):
            raise TransferError(f"{name} cannot be written here")
        path = self._path(name)
        return path.with_name(f".{path.name}.{upload}")


class RayTransport:
    """The way to a receiver; `actor` is its handle."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def put(self, local: Path, name: str) -> None:
        import ray

        upload, digest, offset = secrets.token_hex(8), hashlib.sha256(), 0
        under_way: deque[Any] = deque()
        with local.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                under_way.append(self._actor.write.remote(name, upload, offset, chunk))
                offset += len(chunk)
                if len(under_way) == WINDOW:
                    ray.get(under_way.popleft())
        if not offset:
            under_way.append(self._actor.write.remote(name, upload, 0, b""))
        ray.get(list(under_way))
        ray.get(self._actor.commit.remote(name, upload, offset, digest.hexdigest()))

    def fetch(self, name: str, local: Path) -> bool:
        import ray

        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f".{local.name}.{secrets.token_hex(8)}")
        try:
            while True:
                identity = ray.get(self._actor.describe.remote(name))
                if identity is None:
                    return False
                if self._copy(name, identity, part):
                    os.replace(part, local)
                    return True
        finally:
            part.unlink(missing_ok=True)

    def _copy(self, name: str, identity: Identity, part: Path) -> bool:
        """Copy one version; False when another has taken its place meanwhile."""
        import ray

        digest = hashlib.sha256()
        offsets, under_way = iter(range(0, identity[0], CHUNK)), deque[Any]()
        with part.open("wb") as file:
            while True:
                for offset in offsets:
                    under_way.append(self._actor.read.remote(name, offset, CHUNK, identity))
                    if len(under_way) == WINDOW:
                        break
                if not under_way:
                    break
                chunk = ray.get(under_way.popleft())
                if chunk is None:
                    return False
                digest.update(chunk)
                file.write(chunk)
        return bool(ray.get(self._actor.digest.remote(name, identity)) == digest.hexdigest())

    def names(self, prefix: str) -> list[str]:
        import ray

        names: list[str] = ray.get(self._actor.names.remote(prefix))
        return names


def start_receiver(name: str, namespace: str, node_id: str, root: Path, writable: bool = True) -> Any:
    """Start a receiver on this node; Ray restarts it there when it dies."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options = {
        "name": name,
        "namespace": namespace,
        "num_cpus": 0,
        "max_concurrency": 8,
        "max_restarts": -1,
        "max_task_retries": -1,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
    }
    return ray.remote(Receiver).options(**options).remote(str(root), writable)


def sees(probe: str, token: str) -> bool:
    """Whether this process reads the driver's file, and may write beside it."""
    try:
        return Path(probe).read_text(encoding="ascii") == token and os.access(Path(probe).parent, os.W_OK)
    except (OSError, ValueError):
        return False
