"""What a worker sends to an address at every validation, and an address that fails meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dmltune.storage.addresses import AddressTransport
from dmltune.storage.folder_mirror import FolderMirror
from dmltune.storage.transport import TransferError


def put(root: Path, name: str, content: bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_mirror_sends_the_newest_version_and_the_checkpoint_last(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    sent: list[str] = []

    class Noting(AddressTransport):
        def put(self, local: Path, name: str) -> None:
            time.sleep(0.1)  # a slow line
            super().put(local, name)
            sent.append(f"{name}={local.read_text()}")

    mirror = FolderMirror(folder, "t", Noting(address), tmp_path, "last/c")
    for step in range(20):
        for name in ("best/m", "last/c", "zzz"):
            put(folder, name + ".new", str(step).encode()).replace(folder / name)
        mirror.submit()
    mirror.flush()
    mirror.close()
    assert sent[-3:] == ["t/best/m=19", "t/zzz=19", "t/last/c=19"]
    assert len(sent) < 3 * 20  # the versions in between were dropped
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial"]


def test_an_outage_is_waited_for_and_one_that_lasts_is_an_error(tmp_path: Path) -> None:
    folder, store = tmp_path / "trial", tmp_path / "store"
    put(folder, "last/c", b"1")
    put(tmp_path, "store", b"in the way")  # the folder of the address cannot be made
    files = AddressTransport(f"file://{store}")
    mirror = FolderMirror(folder, "t", files, tmp_path / "scratch", "last/c", patience_s=30)
    mirror.submit()
    time.sleep(0.3)
    store.unlink()
    mirror.flush()
    mirror.close()
    assert files.read("t/last/c") == b"1"
    put(tmp_path, "other", b"in the way")
    failing = FolderMirror(
        folder,
        "t",
        AddressTransport(f"file://{tmp_path}/other"),
        tmp_path / "scratch",
        "last/c",
        patience_s=0.5,
    )
    with pytest.raises(TransferError, match="did not reach the store"):
        failing.flush()
    failing.close()
