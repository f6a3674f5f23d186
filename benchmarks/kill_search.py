"""Kill a search's driver at random, again and again, and compare the result with an undisturbed search.

    python benchmarks/kill_search.py --kills 10 --trials 20
    python benchmarks/kill_search.py --interrupt --trials 10    # Ctrl-C while a candidate is repeated

Both searches run one trial at a time with the scheduler `promote`, so that trials are paused, and with
repetitions at the end. Equal are: values, role, state, steps and scores of every trial, in their order.
Exit code 1 when anything differs, when a process is left, or when the search ended before the last kill.

A driver is killed at a random moment (`--between`) after its first validation, so that a slow machine does
not kill it before it has done anything; one in five is killed while it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import psutil

SMALL = ("data.classes=40", "data.size=16", "batch.size=32", "max_steps=9", "validate_every=3")
OTHER = ("scheduler={name: promote, unit: steps}", "references.longest=1", "monitor.every=3")


def command(store: Path, trials: int) -> list[str]:
    search = [sys.executable, "-m", "dmltune", "search", "glyphs-ccp", *SMALL, *OTHER]
    return [*search, "--concurrent", "1", "--trials", str(trials), "--store", str(store), "--name", "killed"]


def trials_of(store: Path) -> list[dict[str, Any]]:
    storage = f"sqlite:///{store / 'optuna.db'}"
    trials = optuna.load_study(study_name="killed", storage=storage).trials
    keys = ("role", "seed", "fold", "repeats")
    return [
        {
            "values": trial.params,
            "state": trial.state.name,
            "scores": trial.intermediate_values,
            **{key: trial.user_attrs.get(key) for key in keys},
        }
        for trial in trials
    ]


def paused_in(store: Path) -> int:
    storage = f"sqlite:///{store / 'optuna.db'}"
    trials = optuna.load_study(study_name="killed", storage=storage).trials
    return sum("paused" in trial.user_attrs for trial in trials)


def validations(store: Path) -> int:
    """Return how many validations the study has."""
    try:
        with closing(sqlite3.connect(f"file:{store / 'optuna.db'}?mode=ro", uri=True, timeout=5)) as database:
            return int(database.execute("SELECT COUNT(*) FROM trial_intermediate_values").fetchone()[0])
    except sqlite3.OperationalError:  # it is not there yet
        return 0


def is_repeating(store: Path, trials: int) -> bool:
    """Return whether a candidate is being repeated, in the second half of the search."""
    query = """SELECT COUNT(*) FROM trials JOIN trial_user_attributes USING (trial_id)
        WHERE key = 'role' AND value_json = '"repeat"' AND state = 'RUNNING' AND number >= ?"""
    try:
        with closing(sqlite3.connect(f"file:{store / 'optuna.db'}?mode=ro", uri=True, timeout=5)) as database:
            return bool(database.execute(query, (trials // 2,)).fetchone()[0])
    except sqlite3.OperationalError:
        return False


@dataclass
class Disturbance:
    """When a driver is ended: `kills` times after a validation, or once by Ctrl-C in the repetitions."""

    kills: int
    between: tuple[float, float]
    moments: random.Random
    interrupt: bool = False
    done: int = 0

    def is_due(self, store: Path, trials: int, driver: subprocess.Popen[bytes]) -> bool:
        """Wait for the moment; return whether the driver still runs then."""
        if self.done >= (1 if self.interrupt else self.kills):
            driver.wait()
            return False
        before = validations(store)
        starting = not self.interrupt and self.moments.random() < 0.2
        while not starting and driver.poll() is None:
            time.sleep(0.2)
            if is_repeating(store, trials) if self.interrupt else validations(store) > before:
                break
        with suppress(subprocess.TimeoutExpired):
            driver.wait(self.moments.uniform(*self.between))
        return driver.poll() is None

    def end(self, store: Path, driver: subprocess.Popen[bytes]) -> None:
        driver.send_signal(signal.SIGINT if self.interrupt else signal.SIGKILL)
        code = driver.wait()
        self.done += 1
        print(f"ended {self.done} times, at validation {validations(store)}, exit code {code}", flush=True)


def run_search(store: Path, trials: int, disturbance: Disturbance) -> None:
    """Run the search to its end, again and again."""
    while True:
        with tempfile.TemporaryFile() as errors:
            driver = subprocess.Popen(command(store, trials), stdout=subprocess.DEVNULL, stderr=errors)
            if disturbance.is_due(store, trials, driver):
                disturbance.end(store, driver)
                continue
            if driver.returncode != 0:
                errors.seek(0)
                text = errors.read().decode()[-2000:]
                raise SystemExit(f"the search failed with exit code {driver.returncode}:\n{text}")
            return


def left_over() -> list[str]:
    """Return the processes of these searches that are still there."""
    mine = [process for process in psutil.process_iter(["cmdline"]) if process.pid != os.getpid()]
    return [
        " ".join(process.info["cmdline"] or [])[:100]
        for process in mine
        if "dmltune-kills-" in " ".join(process.info["cmdline"] or [])
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--between", type=float, nargs=2, default=(0.0, 5.0), metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--interrupt", action="store_true", help="Ctrl-C in the repetitions, no kills")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background commands ignore it
    with tempfile.TemporaryDirectory(prefix="dmltune-kills-") as folder:
        undisturbed, killed = Path(folder, "undisturbed"), Path(folder, "killed")
        started = time.monotonic()
        run_search(undisturbed, args.trials, Disturbance(0, tuple(args.between), random.Random(0)))
        seconds = time.monotonic() - started
        print(f"undisturbed: {seconds:.0f} s, {paused_in(undisturbed)} trials were paused", flush=True)
        kills = 0 if args.interrupt else args.kills
        disturbance = Disturbance(kills, tuple(args.between), random.Random(args.seed), args.interrupt)
        run_search(killed, args.trials, disturbance)
        expected, found = trials_of(undisturbed), trials_of(killed)
        time.sleep(5)
        left = left_over()
    different = [
        number for number, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]
    ]
    for number in different:
        print(json.dumps({"trial": number, "undisturbed": expected[number], "killed": found[number]}))
    same = len(expected) == len(found) and not different
    print(
        f"ended {disturbance.done} times; {len(found)} trials, {len(expected)} expected, "
        f"{len(different)} differ; left: {left}"
    )
    return 0 if same and not left and disturbance.done == (kills or 1) else 1


if __name__ == "__main__":
    raise SystemExit(main())
