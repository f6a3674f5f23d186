"""Several fixed experiments in warm worker groups: stopped, continued, never repeated; private files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.driving import SMALL

from dmltune.core import checkpoint
from dmltune.train.orders import TrialReport
from dmltune.train.worker_pool import finished_report

PROGRAM = """
import json, os, signal, stat, sys, time
from pathlib import Path
from dmltune.core import checkpoint
from dmltune.experiment import load_experiment
from dmltune.resources import Locations, Resources
from dmltune.train.orders import Order
from dmltune.train.worker_pool import finished_report, worker_pool

os.umask(0)
folder, overrides = Path(sys.argv[1]), sys.argv[2:]
orders = [
    Order(f"two/{seed}", experiment.fixed().to_dict(), str(folder / str(seed)))
    for seed in range(2)
    for experiment in [load_experiment("glyphs", [*overrides, f"seed={seed}"])]
]
orders.append(Order("two/broken", {**orders[0].experiment, "max_steps": 0}, str(folder / "broken")))

def line(name, report):
    return name, report.number, report.step, report.finished, report.best_score, report.failure

def modes(scratch):
    paths = [path for path in (scratch, *scratch.rglob("*")) if path.exists() and not path.is_symlink()]
    return {str(path.relative_to(scratch)): stat.S_IMODE(path.stat().st_mode) for path in paths}

first, stored = [], []
with worker_pool(Resources(concurrent=1), Locations()) as pool:
    for name, report in pool.train(orders[:2]):
        first.append(line(name, report))
        time.sleep(0.5)  # a reader that takes its time to log the report
        stored.append(checkpoint.load(folder / name[-1] / "last")[1]["report"]["number"])
        if len(first) == 3:
            secret = (pool.session.scratch / "token").read_text()
            holders = [
                str(path.relative_to(pool.session.scratch))
                for path in pool.session.scratch.rglob("*")
                if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
            ]
            files, beside = modes(pool.session.scratch), os.environ["RAY_TMPDIR"]
            inside = beside.startswith(f"{pool.session.scratch}/")
            os.kill(os.getpid(), signal.SIGTERM)
    pool.stopped.clear()
    second = [line(*pair) for pair in pool.train(orders)]
    third = [line(*pair) for pair in pool.train(orders[:2])]
done = [finished_report(folder / str(seed)) is not None for seed in range(2)]
left = pool.session.scratch.exists()
print(json.dumps({
    "first": first, "second": second, "third": third, "done": done, "stored": stored,
    "files": files, "holders": holders, "inside": inside, "left": left, "secret": len(secret),
}))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pool")
    overrides = (*SMALL, "max_steps=12", "validate_every=4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "trials"), *overrides],
        capture_output=True, text=True, cwd=folder, env=os.environ, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_no_checkpoint_replaces_a_report_before_it_was_read(session: dict[str, Any]) -> None:
    """A kill of the driver between the two would lose the report: only the last one comes again."""
    assert session["stored"] == [number for _, number, *_ in session["first"]]


def test_orders_continue_where_they_were_stopped_and_a_finished_one_repeats_its_end(
    session: dict[str, Any],
) -> None:
    assert [line[:3] for line in session["first"]] == [["two/0", 0, 0], ["two/0", 1, 4], ["two/0", 2, 8]]
    # the report of a checkpoint is repeated, because its reader may have died
    second = session["second"]
    lines = {name: [line[1:4] for line in second if line[0] == name] for name in ("two/0", "two/1")}
    assert lines["two/0"] == [[2, 8, False], [3, 12, True]]
    assert lines["two/1"] == [[0, 0, False], [1, 4, False], [2, 8, False], [3, 12, True]]
    (broken,) = [line for line in second if line[0] == "two/broken"]
    assert broken[5]
    last = {line[0]: line for line in second}
    assert session["third"] == [last["two/0"], last["two/1"]]
    assert session["done"] == [True, True]


def test_no_other_user_can_read_the_token_of_a_local_ray_even_under_umask_0(session: dict[str, Any]) -> None:
    files = session["files"]
    assert len(files) > 20  # Ray was running
    assert files["."] == 0o700  # the folder of the session: nothing below it can be reached by others
    assert session["inside"]  # Ray's own folder, which it makes world-writable, is below it
    assert session["secret"] == 64
    assert "token" in session["holders"]
    assert all(files[holder] & 0o077 == 0 for holder in session["holders"]), session["holders"]
    assert not session["left"]


def test_only_a_training_that_reached_its_end_is_finished(tmp_path: Path) -> None:
    def write(**changes: object) -> None:
        report = TrialReport(number=3, step=8, max_steps=8, score=0.5, best_score=0.5)
        checkpoint.save(
            tmp_path / "last", {"x": torch.zeros(1)}, {"run": {}, "report": {**vars(report), **changes}}
        )

    assert finished_report(tmp_path) is None
    write()
    assert finished_report(tmp_path) is None
    write(finished=True, reason="max_steps")
    report = finished_report(tmp_path)
    assert report is not None
    assert (report.step, report.reason) == (8, "max_steps")
    (tmp_path / "last" / checkpoint.CHECKPOINT).write_bytes(b"cut off")
    assert finished_report(tmp_path) is None
