from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmltune.data import cache, files
from dmltune.data.cache import cache_folder, cached, trim
from dmltune.errors import UserError

TWO_BUILDERS = """
import sys, time
from pathlib import Path
from dmltune.data.cache import cached

def build(folder):
    (Path(sys.argv[1]) / f"built-{sys.argv[2]}").touch()
    (folder / "a").write_text("half")
    time.sleep(1.0)
    (folder / "a").write_text("whole")

print(cached("entry", build, lambda folder: (folder / "a").read_text()))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def read(folder: Path) -> str:
    text = (folder / "a").read_text()
    if text != "whole":
        raise ValueError(text)
    return text


def build(folder: Path) -> None:
    (folder / "a").write_text("whole")


def never(folder: Path) -> None:
    raise AssertionError("must not build again")


def test_the_folder_is_that_of_the_environment_or_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DMLTUNE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "dmltune"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "dmltune"


def test_an_entry_is_built_once() -> None:
    assert cached("entry", build, read) == "whole"
    assert cached("entry", never, read) == "whole"


def test_a_damaged_entry_is_built_again(own_cache: Path) -> None:
    cached("entry", build, read)
    (own_cache / "entry" / "a").write_text("torn")
    assert cached("entry", build, read) == "whole"
    (own_cache / "entry" / "a").unlink()
    assert cached("entry", build, read) == "whole"


def test_a_failed_build_leaves_nothing_and_says_why(own_cache: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise RuntimeError("no fonts")

    with pytest.raises(RuntimeError, match="no fonts"):
        cached("entry", fails, read)
    assert [path.name for path in own_cache.iterdir()] == [".entry.lock"]


def test_two_processes_at_once_build_once_and_both_read_it_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO_BUILDERS, str(tmp_path)]
    both = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "12"]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == ["whole", "whole"]
    assert len(list(tmp_path.glob("built-*"))) == 1


def test_a_killed_builder_does_not_stop_the_next(tmp_path: Path, own_cache: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", TWO_BUILDERS, str(tmp_path), "1"])
    try:
        while not (tmp_path / "built-1").exists():
            time.sleep(0.01)
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert not (own_cache / "entry").exists()
    assert cached("entry", build, read) == "whole"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_one_clear_line(own_cache: Path) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o500)
    with pytest.raises(UserError, match="set DMLTUNE_CACHE to a folder"):
        cached("entry", build, read)


def test_a_cache_below_a_file_is_one_clear_line(own_cache: Path) -> None:
    own_cache.write_text("not a folder")
    with pytest.raises(UserError, match="set DMLTUNE_CACHE to a folder"):
        cached("entry", build, read)


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    program = """
import resource
from dmltune.data.cache import cached
from dmltune.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    cached("entry", lambda folder: (folder / "a").write_bytes(bytes(5000)), lambda folder: None)
except UserError as error:
    print(error)
"""
    line = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout
    assert "set DMLTUNE_CACHE to a folder that can be written and has room" in line


def test_what_a_killed_builder_left_is_removed_by_the_next(own_cache: Path) -> None:
    (own_cache / ".entry~killed").mkdir(parents=True)
    (own_cache / ".entry~killed" / "a").write_text("half")
    (own_cache / ".entry-2~at-work").mkdir()  # of another entry
    cached("entry", build, read)
    assert sorted(path.name for path in own_cache.iterdir()) == [".entry-2~at-work", ".entry.lock", "entry"]


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def made_by_another_process(names: str, bytes_each: int) -> None:
    """Entries that nobody uses any more, the first one longest unused."""
    program = """
import os, sys
from dmltune.data.cache import cached
for age, name in enumerate(sys.argv[1]):
    folder = cached(name, lambda folder: (folder / "a").write_bytes(bytes(int(sys.argv[2]))), lambda f: f)
    os.utime(folder, (1000 + age, 1000 + age))
"""
    subprocess.run([sys.executable, "-c", program, names, str(bytes_each)], check=True, timeout=60)


def write_3000(folder: Path) -> None:
    (folder / "a").write_bytes(bytes(3000))


def test_past_the_limit_the_entries_unused_for_longest_go(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_another_process("abcd", 3000)
    assert entries(own_cache) == set("abcd")
    cached("a", never, lambda folder: folder)  # used again, by us: in use
    (own_cache / "notes").mkdir()  # no entry
    monkeypatch.setenv("DMLTUNE_CACHE_GB", "0.0000095")  # three of them
    cached("e", write_3000, lambda folder: folder)
    assert entries(own_cache) == {"a", "d", "e", "notes"}


def test_room_is_made_for_what_comes(own_cache: Path) -> None:
    made_by_another_process("abc", 3000)
    trim(own_cache, 12_000, room=5000)
    assert entries(own_cache) == {"b", "c"}
    trim(own_cache, 12_000, room=6000)
    assert entries(own_cache) == {"b", "c"}


def test_an_entry_in_use_by_any_living_process_is_never_removed(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by_another_process("ab", 3000)
    program = """
import sys
from dmltune.data.cache import cached
cached("a", None, lambda folder: folder)
print("in use", flush=True)
sys.stdin.readline()
"""
    user = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    try:
        assert user.stdout is not None
        assert user.stdout.readline() == "in use\n"
        monkeypatch.setenv("DMLTUNE_CACHE_GB", "0")
        cached("c", write_3000, lambda folder: folder)
        assert entries(own_cache) == {"a", "c"}
    finally:
        user.kill()  # even so its lock goes with it
        user.communicate(timeout=60)
    trim(own_cache, 0)
    assert entries(own_cache) == {"c"}


def test_an_entry_that_was_built_again_is_in_use_too(own_cache: Path) -> None:
    cached("entry", build, read)
    (own_cache / "entry" / "a").write_text("torn")
    cached("entry", build, read)
    trim(own_cache, 0)
    assert entries(own_cache) == {"entry"}


def test_a_limit_that_is_no_size_is_refused_before_building(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ["much", "-1", "nan"]:
        monkeypatch.setenv("DMLTUNE_CACHE_GB", text)
        with pytest.raises(
            UserError, match=rf"DMLTUNE_CACHE_GB must be a number of gigabytes.* got '{text}'"
        ):
            cached("entry", never, read)


def test_a_long_wait_for_another_builder_is_logged(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.05)
    other = subprocess.Popen([sys.executable, "-c", TWO_BUILDERS, str(tmp_path), "1"], stdout=-1)
    try:
        while not (tmp_path / "built-1").exists():
            time.sleep(0.01)
            assert other.poll() is None
        assert cached("entry", never, read) == "whole"
    finally:
        other.communicate(timeout=60)
    assert caplog.messages == ["another process is building entry; waiting for it"]


def test_memory_of_another_user_or_missing_memory_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "MEMORY", tmp_path / "missing")
    with pytest.raises(UserError, match=r"cannot be cached in memory.*; use --cache disk or none\."):
        cached("entry", build, read, in_memory=True)
    monkeypatch.setattr(cache, "MEMORY", tmp_path)
    (tmp_path / f"dmltune-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(UserError, match="belongs to another user"):
        cached("entry", build, read, in_memory=True)
