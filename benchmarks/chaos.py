"""A search under random faults: kill -9 of its processes and servers, full disks, errors of storage.

    python benchmarks/chaos.py --minutes 20 [--seed 0]

A real search runs on a Ray cluster of two nodes, with MLflow's server and PostgreSQL (for runs and for
studies). Every few seconds one fault happens; a driver or a cluster that is gone is started again, by the
same command. At the end the search is finished, and all is compared: MLflow with the study, every
point of every metric, what processes, placement groups and files are left. Exit code 1: something is wrong.
`--seed` repeats the plan of faults.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chaos_checks import problems_of
from chaos_world import World

FIRST = ("worker", "mlflow", "driver", "conductor", "storage", "node", "postgres", "disk", "gcs", "partition")


def plan_of(seed: int, count: int) -> list[tuple[float, str]]:
    """Return (seconds to wait, fault): rounds of all kinds, each in another order."""
    moments, plan = random.Random(seed), list[tuple[float, str]]()
    while len(plan) < count:
        kinds = list(FIRST)
        moments.shuffle(kinds)
        plan += [(moments.uniform(8, 20), kind) for kind in kinds]
    return plan[:count]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, help="instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", nargs="+", choices=FIRST, help="only these, each once, in this order")
    args = parser.parse_args()
    seconds = args.seconds or 60 * args.minutes
    plan = plan_of(args.seed, 1 + int(seconds / 8))
    if args.faults:
        plan = [(wait, kind) for (wait, _), kind in zip(plan, args.faults, strict=False)]
    with (
        tempfile.TemporaryDirectory(prefix="dmltune-chaos-", dir="/tmp") as folder,
        World(Path(folder)) as world,
    ):
        began = time.monotonic()
        world.start_driver()
        world.wait_for_progress(0, 120)
        costs = run_plan(world, plan, began + seconds)
        world.finish()
        problems = problems_of(world)
        report(world, costs, problems, time.monotonic() - began)
    left = world.left_over()
    for line in left:
        print(f"left over: {line}")
    return 1 if problems or left else 0


def run_plan(world: World, plan: list[tuple[float, str]], until: float) -> list[tuple[str, float]]:
    """Let the faults happen; return each with the seconds until the next validation was in the study."""
    costs = []
    for wait, kind in plan:
        if time.monotonic() + wait > until:
            break
        world.watch(wait)
        before, at = world.scores(), time.monotonic()
        world.cause(kind)
        world.wait_for_progress(before, 180)
        costs.append((kind, time.monotonic() - at))
        print(
            f"{time.monotonic() - world.began:6.0f} s  {kind:10} {costs[-1][1]:6.1f} s to the next report",
            flush=True,
        )
    return costs


def report(world: World, costs: list[tuple[str, float]], problems: list[str], seconds: float) -> None:
    print(
        f"\n{seconds:.0f} s, {len(costs)} faults, {world.starts} starts of the driver, "
        f"{world.scores()} validations"
    )
    for kind in dict.fromkeys(kind for kind, _ in costs):
        cost = sorted(value for each, value in costs if each == kind)
        print(f"  {kind:10} {len(cost):3} ×, median {cost[len(cost) // 2]:5.1f} s, most {cost[-1]:5.1f} s")
    for line in world.notes():
        print(f"  said: {line}")
    for problem in problems:
        print(f"WRONG: {problem}")
    if not problems:
        print("complete; every point once; study and MLflow agree")


if __name__ == "__main__":
    raise SystemExit(main())
