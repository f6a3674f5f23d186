"""Several fixed experiments on warm slots: stopped, continued, never repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from support.driving import SMALL

from dmltune.core import checkpoint
from dmltune.train.orders import TrialReport
from dmltune.train.worker_pool import finished_report

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from dmltune.experiment import load_experiment
from dmltune.train.many import crew, finished_report
from dmltune.train.orders import Order

folder, words = Path(sys.argv[1]), sys.argv[2:]
orders = [
    Order(f"two/{seed}", experiment.fixed().to_dict(), str(folder / str(seed)))
    for seed in range(2)
    for experiment in [load_experiment("glyphs", [*words, f"seed={seed}"])]
]
orders.append(Order("two/broken", {**orders[0].experiment, "max_steps": 0}, str(folder / "broken")))

def line(name, report):
    return name, report.number, report.step, report.finished, report.best_score, report.failure

first = []
with crew(concurrent=1) as team:
    for name, report in team.train(orders[:2]):
        first.append(line(name, report))
        if len(first) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
    team.stopped.clear()
    second = [line(*one) for one in team.train(orders)]
    third = [line(*one) for one in team.train(orders[:2])]
done = [finished_report(folder / str(seed)) is not None for seed in range(2)]
print(json.dumps({"first": first, "second": second, "third": third, "done": done}))
"""


def test_orders_go_on_where_they_were_stopped_and_a_finished_one_only_tells_its_end(tmp_path: Path) -> None:
    words = (*SMALL, "max_steps=12", "validate_every=4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "trials"), *words],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert [line[:3] for line in told["first"]] == [["two/0", 0, 0], ["two/0", 1, 4], ["two/0", 2, 8]]
    # a checkpoint's report comes again, because whoever asked for it may have died
    lines = {name: [line[1:4] for line in told["second"] if line[0] == name] for name in ("two/0", "two/1")}
    assert lines["two/0"] == [[2, 8, False], [3, 12, True]]
    assert lines["two/1"] == [[0, 0, False], [1, 4, False], [2, 8, False], [3, 12, True]]
    (broken,) = [line for line in told["second"] if line[0] == "two/broken"]
    assert "max_steps" in broken[5]
    last = {line[0]: line for line in told["second"]}
    assert told["third"] == [last["two/0"], last["two/1"]]
    assert told["done"] == [True, True]


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
