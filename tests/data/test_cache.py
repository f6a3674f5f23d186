from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmltune.data.cache import cache_folder, cached
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
