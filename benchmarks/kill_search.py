"""Kill a search's driver at random, again and again, and compare the result with an undisturbed search.

    python benchmarks/kill_search.py --kills 10 --trials 20

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


def killed_search(store: Path, trials: int, kills: int, between: tuple[float, float], seed: int) -> int:
    """Run the search to its end; return how often it was killed on the way."""
    moments, done = random.Random(seed), 0
    while True:
        before, started = validations(store), time.monotonic()
        with tempfile.TemporaryFile() as errors:
            driver = subprocess.Popen(command(store, trials), stdout=subprocess.DEVNULL, stderr=errors)
            if done < kills:
                starting = moments.random() < 0.2
                while not starting and driver.poll() is None and validations(store) == before:
                    time.sleep(0.2)
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(moments.uniform(*between))
            else:
                driver.wait()
            if driver.poll() is None:
                driver.send_signal(signal.SIGKILL)
                driver.wait()
                done += 1
                found = validations(store)
                seconds = time.monotonic() - started
                print(
                    f"kill {done} after {seconds:.1f} s: {found - before} of {found} validations", flush=True
                )
                continue
            if driver.returncode != 0:
                errors.seek(0)
                text = errors.read().decode()[-2000:]
                raise SystemExit(f"the search failed with exit code {driver.returncode}:\n{text}")
            return done


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
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dmltune-kills-") as folder:
        undisturbed, killed = Path(folder, "undisturbed"), Path(folder, "killed")
        started = time.monotonic()
        killed_search(undisturbed, args.trials, 0, tuple(args.between), args.seed)
        seconds = time.monotonic() - started
        print(f"undisturbed: {seconds:.0f} s, {paused_in(undisturbed)} trials were paused")
        kills = killed_search(killed, args.trials, args.kills, tuple(args.between), args.seed)
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
        f"{kills} kills; {len(found)} trials, {len(expected)} expected, {len(different)} differ; left: {left}"
    )
    return 0 if same and not left and kills == args.kills else 1


if __name__ == "__main__":
    raise SystemExit(main())
