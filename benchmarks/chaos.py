"""A search under random faults: kill -9 of its processes and servers, full disks, errors of storage.

    python benchmarks/chaos.py --minutes 20 [--seed 0]

A real search runs on a Ray cluster of two nodes, with MLflow's server and PostgreSQL (for runs and for
studies). Every few seconds one fault happens; a driver or a cluster that is gone is started again, by the
same command. At the end the search is finished, and all is compared: MLflow with the study, every
point of every metric, what processes, placement groups and files are left. Exit code 1: something is wrong.
`--seed` repeats the plan of faults. `--local` does without a cluster: each driver has a Ray of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from chaos_checks import problems_of
from chaos_faults import FAULTS, possible
from chaos_world import World

OWN_MOUNTS = "DMLTUNE_CHAOS_MOUNTS"  # environment: this process has mounts of its own
START_S, LOST_S = 400.0, 400.0  # without any validation: something hangs (a busy machine is slow)
Cost = tuple[str, float, int]  # fault, seconds until the next validation, starts of the driver


def main() -> int:
    arguments = _arguments()
    _use_own_mounts()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # a dozen processes
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("RAY_worker_niceness", "0")  # other work on this machine would starve the workers
    seconds = arguments.seconds or 60 * arguments.minutes
    with _folder(arguments.keep) as folder:
        with World(folder, not arguments.local, arguments.trials, arguments.more) as world:
            kinds = possible(world)
            print(f"faults: {', '.join(kinds)}; {folder}", flush=True)
            plan = [
                fault for fault in plan_of(arguments.seed, arguments.faults or kinds) if fault[1] in kinds
            ]
            once = len(arguments.faults or []) * arguments.each or None
            world.start_driver()
            world.wait_for_progress(0, START_S)
            costs = run_plan(world, plan[:once], world.began + seconds)
            world.finish()
            problems = problems_of(world)
            report(world, costs, problems)
        problems += [f"left over: {line}" for line in world.left_over()]
        for problem in problems:
            print(f"WRONG: {problem}")
        if not problems:
            print("complete; every point once; study and MLflow agree; nothing is left over")
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, help="instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", nargs="+", choices=list(FAULTS), help="only these, in this order")
    parser.add_argument("--each", type=int, default=1, help="how often, with --faults")
    parser.add_argument("--trials", type=int, default=16, help="of the search, at first")
    parser.add_argument("--more", type=int, default=8, help="trials, each time the search is finished")
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder that does not exist, and stays")
    return parser.parse_args()


def plan_of(seed: int, kinds: Sequence[str]) -> list[tuple[float, str]]:
    """Return (seconds to wait, fault): rounds of all kinds, the first as given, each later one shuffled."""
    moments, kinds, plan = random.Random(seed), list(kinds), list[tuple[float, str]]()
    while len(plan) < 1000:
        plan += [(moments.uniform(1, 8), kind) for kind in kinds]
        moments.shuffle(kinds)
    return plan


def run_plan(world: World, plan: list[tuple[float, str]], until: float) -> list[Cost]:
    """Let the faults happen; return what each has cost."""
    costs = []
    for wait, kind in plan:
        if time.monotonic() + wait > until:
            break
        world.watch(wait)
        starts, at = world.starts, time.monotonic()
        world.note(kind)
        FAULTS[kind](world)
        world.wait_for_progress(world.scores(), LOST_S)
        cost = kind, time.monotonic() - at, world.starts - starts
        costs.append(cost)
        now = time.monotonic() - world.began
        print(f"{now:6.0f} s  {kind:10} {cost[1]:6.1f} s to the next report, {cost[2]} starts", flush=True)
    return costs


def report(world: World, costs: list[Cost], problems: list[str]) -> None:
    print(
        f"\n{time.monotonic() - world.began:.0f} s, {len(costs)} faults, {world.starts} starts of the driver "
        f"(which ended {len(world.ends)} times by itself: {world.ends}), {world.scores()} validations of "
        f"{world.trials} trials"
    )
    for kind in dict.fromkeys(kind for kind, *_ in costs):
        cost = sorted(seconds for each, seconds, _ in costs if each == kind)
        starts = sum(starts for each, _, starts in costs if each == kind)
        print(
            f"  {kind:10} {len(cost):3} ×, median {cost[len(cost) // 2]:5.1f} s, most {cost[-1]:5.1f} s, "
            f"{starts} starts of the driver"
        )
    for line in world.notes():
        print(f"  said: {line}")


def _use_own_mounts() -> None:
    """Start again in a mount namespace of its own: a kill of this program leaves no mount behind."""
    if OWN_MOUNTS not in os.environ and os.getuid() == 0 and shutil.which("unshare"):
        os.environ[OWN_MOUNTS] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Yield a folder whose path is short, as those of Ray's sockets must be."""
    if kept is not None:
        kept.mkdir()
        yield kept.resolve()
        return
    folder = Path(f"/tmp/dx{secrets.token_hex(2)}")
    folder.mkdir(mode=0o755)  # PostgreSQL runs as another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
