"""The disk of the driver is full in the middle of a search: one line, and the same command continues."""

from __future__ import annotations

import contextlib
import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.driving import SMALL, Place

from dmltune.store import Store
from dmltune.tracking.health import examine

NAME = "full"
STEPS = range(0, 81, 10)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A store on a small disk; what workers write is on another one."""
    store = tmp_path / "mlruns"
    with small_disk(store, "16m"), small_disk(store / "searches" / NAME / "trials", "64m"):
        place = Place(tmp_path)
        yield place
        place.clean_up()


def fill(file: Path) -> None:
    """Write until the disk is full."""
    with file.open("wb", buffering=0) as stream:
        for size in (2**16, 2**12, 1):
            with contextlib.suppress(OSError):
                while stream.write(bytes(size)) == size:
                    pass
    with pytest.raises(OSError) as caught:
        (file.parent / "one more").write_bytes(bytes(2**13))
    assert caught.value.errno == errno.ENOSPC
    (file.parent / "one more").unlink()


def test_a_search_ends_with_one_line_and_the_same_command_continues(place: Place) -> None:
    overrides = (*SMALL, f"max_steps={STEPS[-1]}", f"validate_every={STEPS.step}")
    words = ("search", "glyphs-ccp", *overrides, "--trials", "2", "--concurrent", "1", "--name", NAME)
    driver = place.start(*words)
    driver.wait_for(lambda: place.step(NAME, 0) >= 2 * STEPS.step, "a trial under way")
    ballast = place.store / "ballast"
    fill(ballast)
    before = place.step(NAME, 0)
    code, out = driver.finish()
    assert code == 2, driver.text
    assert "Traceback" not in driver.text + out
    last = driver.text.rstrip().splitlines()[-1]
    assert last.startswith("no space is left on the disk of the store"), driver.text
    assert not driver.alive()

    ballast.unlink()
    assert place.step(NAME, 0) >= before
    code, out, errors = place.run(*words)
    assert code == 0, errors
    for number in ("0000", "0001"):
        assert sorted(place.steps(place.runs(NAME)[number])) == list(STEPS)
    assert examine(Store.at(place.store)).problems == ()
