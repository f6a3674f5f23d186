"""One finished search for the tests of search, check and malformed stores: made once, copied for each."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from support.driving import QUICK, Driver, Place
from support.stores import copy_store

NAME = "birds"
TRIALS = 5  # four points and the baseline: one model is not stored
# some trials get better than the untrained network; none is a repetition
COSTS = ["embedding_size", "parameters", "ms_per_image"]  # the same for all of them: the front is the winner
OVERRIDES = (
    *(*QUICK, "optimizer={name: sgd, lr: 0.03}", "noise_seeds=1", "repeat_share=0"),
    f"objective.against=[{','.join(COSTS)}]",
)
COMMAND = ("search", "glyphs-ccp", *OVERRIDES, "--trials", str(TRIALS), "--name", NAME)


@dataclass(frozen=True)
class FinishedSearch:
    """The result of the command, and what was seen while it ran and after it."""

    store: str
    result: dict[str, Any]
    processes: int
    alive: list[str]
    listening: list[str]
    left_over: list[str]

    def copy(self, store: Path) -> None:
        copy_store(Path(self.store), store)


def finished_search(factory: pytest.TempPathFactory) -> FinishedSearch:
    """Return the search; the first process of pytest-xdist that asks runs it, the others wait."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / "finished"
    with FileLock(base / "finished.lock"):
        if not (folder / "search.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            search = _run(Place(folder))
            (folder / "search.json").write_text(json.dumps(asdict(search)))
        return FinishedSearch(**json.loads((folder / "search.json").read_text()))


def _run(place: Place) -> FinishedSearch:
    before = set(Path("/tmp").glob("ray"))
    scratch = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))  # short: Ray's sockets live in it
    (home := place.folder / "home").mkdir()
    driver = place.start(*COMMAND, "-f", "json", TMPDIR=str(scratch), HOME=str(home))
    listening: set[str] = set()
    over = threading.Event()
    watcher = threading.Thread(target=_watch_sockets, args=(driver, listening, over))
    watcher.start()
    try:
        code, out = driver.finish()
        assert code == 0, driver.text
        time.sleep(1)
        alive = [str(process) for process in driver.alive()]
    finally:
        over.set()
        watcher.join()
        place.clean_up()
    left = set(scratch.iterdir()) | (_ray_folders(driver) - before) | set(home.glob(".ray"))
    shutil.rmtree(scratch)
    return FinishedSearch(
        str(place.store), json.loads(out), len(driver.seen), alive, sorted(listening), sorted(map(str, left))
    )


def _watch_sockets(driver: Driver, listening: set[str], over: threading.Event) -> None:
    while not over.is_set():
        driver.look()
        own = {driver.process.pid, *driver.seen}
        opened = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        listening |= {c.laddr.ip for c in opened if c.pid in own}
        over.wait(1)


def _ray_folders(driver: Driver) -> set[Path]:
    """Return what would be left beside the temporary folder of the command. Other tests start Ray too."""
    own = ("ray", f"dmltune-ray-{driver.process.pid}-*")
    return {path for pattern in own for path in Path("/tmp").glob(pattern)}
