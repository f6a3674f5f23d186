"""A group whose controller is killed again and again, on a Ray with room for one worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.driving import SMALL

PROGRAM = """
import json, sys
from pathlib import Path
import psutil, ray
from dmltune.experiment import load_experiment
from dmltune.resources import Locations, Resources
from dmltune.train import ray_session
from dmltune.train.orders import Order
from dmltune.train.placement_groups import remove_placement_groups_of
from dmltune.train.worker_pool import worker_pool

@ray.remote(num_cpus=0)
class Holder:
    def hold(self, cpus):
        self.group = ray.util.placement_group([{"CPU": cpus}])
        return self.group.id.hex()

def states():
    return {key: group["state"] for key, group in ray.util.placement_group_table().items()}

def processes(title):
    children = psutil.Process().children(recursive=True)
    return [each for each in children if each.cmdline() and title in each.cmdline()[0]]

ray_session.usable_cores = lambda: 1
experiment = load_experiment("glyphs", sys.argv[2:]).fixed().to_dict()
found, steps, kills = {}, [], 0
with worker_pool(Resources(concurrent=1), Locations()) as pool:
    for _, report in pool.train([Order("kills/0", experiment, sys.argv[1])]):
        steps.append(report.step)
        if report.step in (4, 8):
            (controller,) = processes("TrainController")
            controller.kill()
            controller.wait(10)
    found["training"] = report.reason, report.failure, steps
    found["cleaners"] = len(processes("PlacementGroupCleaner"))
    holders = [Holder.remote() for _ in range(2)]
    waiting, other = ray.get([holder.hold.remote(9) for holder in holders])
    before = states()
    found["before"] = before[waiting]
    ray.kill(holders[0])
    found["removed"] = remove_placement_groups_of(holders[0])
    after = states()
    found["after"] = after.pop(waiting)
    found["others"] = all(state == before[key] for key, state in after.items())
print(json.dumps(found))
"""


def test_killed_controllers_leave_their_room_to_the_next_one_and_no_process(tmp_path: Path) -> None:
    overrides = (*SMALL, "max_steps=12", "validate_every=4")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "trial"), *overrides],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["training"] == ["max_steps", "", [0, 4, 8, 12]]
    assert found["cleaners"] == 0
    assert (found["before"], found["removed"], found["after"]) == ("PENDING", 1, "REMOVED")
    assert found["others"]
