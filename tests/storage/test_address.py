"""A store at an address of S3 or of Google Cloud Storage: a machine is a folder for its local copy."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.provenance import this_process
from dmltune.storage import addresses
from dmltune.storage.addresses import AddressTransport, normal_address
from dmltune.storage.snapshots import snapshot
from dmltune.storage.store_mirror import StoreMirror
from dmltune.storage.transport import TransferError
from dmltune.store import Store


def machine(folder: Path, address: str) -> StoreMirror:
    folder.mkdir(exist_ok=True)
    return StoreMirror(address, folder)


def write_row(root: Path, value: int, name: str = "optuna.db") -> None:
    with closing(sqlite3.connect(root / name)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS numbers (value INTEGER)")
        connection.execute("INSERT INTO numbers VALUES (?)", (value,))


def rows(root: Path, name: str = "optuna.db") -> list[int]:
    with closing(sqlite3.connect(root / name)) as connection:
        return [value for (value,) in connection.execute("SELECT value FROM numbers")]


def put(root: Path, name: str, content: bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_another_machine_finds_what_the_first_one_published(address: str, tmp_path: Path) -> None:
    first = machine(tmp_path / "a", address)
    with first.owned():
        write_row(first.root, 1)
        put(first.root, "test_ledger.jsonl", b"{}\n")
        put(first.root, "artifacts/space/models/m/model.safetensors", b"weights")
    second = machine(tmp_path / "b", address)
    assert rows(second.root) == [1]
    assert (second.root / "test_ledger.jsonl").read_bytes() == b"{}\n"
    model = second.root / "artifacts/space/models/m/model.safetensors"
    assert not model.exists()  # large files come when they are needed
    second.bring(model.parent)
    assert model.read_bytes() == b"weights"
    assert (second.root / "optuna.db").stat().st_mode & 0o077 == 0


def test_a_publication_is_made_in_the_background(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmltune.storage.store_mirror.PAUSE_S", 0.1)
    first = machine(tmp_path / "a", address)
    with first.owned():
        write_row(first.root, 1)
        deadline = time.monotonic() + 30
        while first.files.read("state.json") is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert rows(machine(tmp_path / "b", address).root) == [1]


def test_an_address_that_cannot_be_read_for_a_while_does_not_end_its_owner(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmltune.storage.store_mirror.PAUSE_S", 0.1)
    first = machine(tmp_path / "a", address)
    failed: list[str] = []
    read = first.files.read

    def fail(name: str) -> bytes | None:
        if name == "state.json" and len(failed) < 3:
            failed.append(name)
            raise OSError("end of response with 180 bytes missing")
        return read(name)

    with first.owned():
        monkeypatch.setattr(first.files, "read", fail)
        write_row(first.root, 1)
        deadline = time.monotonic() + 30
        while len(failed) < 3 or first.files.names("databases") == []:
            assert first.failure is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert rows(machine(tmp_path / "b", address).root) == [1]


def test_an_owner_waits_for_an_outage_longer_than_a_reader(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmltune.storage.store_mirror.PATIENCE_S", 0.1)
    first = machine(tmp_path / "a", address)
    first.files.write("searches/s/trials/0000/last/c", b"")
    names, folder = first.files.names, first.root / "searches/s/trials"
    failures: list[str] = []

    def fail(prefix: str) -> list[str]:
        if len(failures) < 2:
            failures.append(prefix)
            raise OSError("no answer")
        return names(prefix)

    monkeypatch.setattr(first.files, "names", fail)
    with pytest.raises(TransferError, match="no answer"):
        first.subfolders(folder)
    with first.owned():
        failures.clear()
        assert first.subfolders(folder) == {"0000"}
        assert len(failures) == 2


def test_what_was_not_published_gives_way_to_what_another_machine_published(
    address: str, tmp_path: Path
) -> None:
    first = machine(tmp_path / "a", address)
    with first.owned():
        write_row(first.root, 1)
    write_row(first.root, 99)  # as if it was killed before it published this
    stale = put(first.root, "searches/s/trials/0000/last/checkpoint.safetensors", b"old")
    second = machine(tmp_path / "b", address)
    with second.owned():
        write_row(second.root, 2)
    again = machine(tmp_path / "a", address)
    assert rows(again.root) == [1, 2]
    assert not stale.exists()


def test_a_killed_driver_continues_with_its_own_newer_state(address: str, tmp_path: Path) -> None:
    first = machine(tmp_path / "a", address)
    with first.owned():
        write_row(first.root, 1)
    write_row(first.root, 2)
    assert rows(machine(tmp_path / "a", address).root) == [1, 2]


def test_deleted_files_leave_the_address_with_the_next_publication_only(address: str, tmp_path: Path) -> None:
    first = machine(tmp_path / "a", address)
    with first.owned():
        write_row(first.root, 1)
        checkpoint = put(first.root, "searches/s/trials/0000/last/checkpoint.safetensors", b"state")
        first.publish_now()
        first.discard(checkpoint.parent.parent)
        assert not checkpoint.exists()
        write_row(first.root, 2)
    assert first.files.names("searches") == []


def test_only_one_driver_writes_to_an_address(address: str, tmp_path: Path) -> None:
    first, second = machine(tmp_path / "a", address), machine(tmp_path / "b", address)
    with first.owned():
        own = this_process().split(":")
        moved = f"other-host:{own[1]}:{own[2]}"  # the second machine cannot look at our process
        assert first._lease is not None
        first._lease._process = moved
        with pytest.raises(UserError, match=r"in use by process \d+ on other-host"), second.owned():
            pass
        same_machine = machine(tmp_path / "a", address)
        with pytest.raises(UserError, match="another process on this machine"), same_machine.owned():
            pass
    with second.owned():
        pass


def test_copies_of_two_databases_are_of_the_same_moment(tmp_path: Path) -> None:
    databases = [tmp_path / "mlflow.db", tmp_path / "optuna.db"]
    for database in databases:
        write_row(tmp_path, 0, database.name)
    done = threading.Event()

    def write() -> None:
        for value in range(1, 200):
            for database in databases:
                write_row(tmp_path, value, database.name)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    looked = 0
    while not done.is_set():
        folder = tmp_path / f"copy{looked}"
        folder.mkdir()
        snapshot(databases, folder)
        ahead = len(rows(folder, "mlflow.db")) - len(rows(folder, "optuna.db"))
        assert ahead in (0, 1)
        looked += 1
    writer.join()
    assert looked > 1


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a\x00b", "a\\b"])
def test_names_cannot_leave_the_store(name: str, tmp_path: Path) -> None:
    files = AddressTransport(f"file://{tmp_path}/store")
    with pytest.raises(TransferError, match="relative path inside"):
        files.write(name, b"")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "s3://",
            "s3://user:secret@bucket/x",
            "s3://bucket/x?secret_key=abc",
            "s3://bucket/../x",
            "ftp://h/x",
        ),
        *("file://relative", "gs://Bucket", "s3://bucket//x", "s3://b/" + "x" * 3000 + "?"),
    ],
)
def test_a_wrong_address_is_one_line_without_secrets(text: str) -> None:
    with pytest.raises(UserError) as caught:
        normal_address(text)
    assert "secret@" not in str(caught.value)
    assert "abc" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_missing_bucket_is_said_within_seconds(address: str, scheme: str) -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match="there is no bucket elsewhere"):
        Store.at(f"{scheme}://elsewhere/x")
    assert time.monotonic() - began < 10


def test_a_server_that_refuses_or_is_mute_is_said_within_seconds(
    address: str, server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (endpoint,) = [name for name, value in server.items() if value.startswith("http://")]
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        for port in (9, mute.getsockname()[1]):
            monkeypatch.setenv(endpoint, f"http://127.0.0.1:{port}")
            addresses._file_system.cache_clear()
            began = time.monotonic()
            with pytest.raises(UserError, match="cannot be used") as caught:
                AddressTransport(address).require_access()
            assert time.monotonic() - began < 15
            assert server.get("AWS_SECRET_ACCESS_KEY", "AWS Error") not in str(caught.value)


def test_what_is_not_there_is_removed_without_an_error(address: str) -> None:
    files = AddressTransport(address)
    files.remove("nothing")
    files.write("folder/file", b"")
    files.remove("folder")
    files.remove("folder")
    assert files.names("folder") == []


def test_missing_credentials_of_google_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    addresses._file_system.cache_clear()
    with pytest.raises(UserError, match=r"cannot be used: .*nowhere\.json") as caught:
        AddressTransport("gs://bucket/x").require_access()
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value)
