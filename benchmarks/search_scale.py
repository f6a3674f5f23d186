"""Seconds and memory of a trial in a search of 10,000: a simulated search through the whole engine.

    python benchmarks/search_scale.py [--trials 10000] [--sampler random] [--scheduler asha] [--json FILE]

The function costs nothing, so the time is the engine's: proposals, decisions, estimates of stopped trials
and repetitions. The seconds of a trial are a mean over the last trials before each mark (CPU time), its
memory the growth of the process since the mark before.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from dmltune.search.simulation import simulate

MARKS = (100, 1000, 10_000)
WINDOW = 100  # trials
STEPS = 9
SPACE = {
    "rate": {"float": [1e-4, 1e-1], "log": True},
    "margin": {"float": [0.0, 1.0]},
    "size": {"int": [16, 1024], "log": True},
    "kind": {"choice": ["a", "b", "c"]},
}


class Meter:
    """A function with curves that takes the time and memory at each trial that begins."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.bytes: list[int] = []
        self._process = psutil.Process()

    def curve(self, values: dict[str, Any], seed: int) -> tuple[list[float], float]:
        self.seconds.append(time.process_time())
        self.bytes.append(self._process.memory_info().rss)
        if len(self.seconds) % 1000 == 0:
            print(f"{len(self.seconds)} trials, {self.seconds[-1] - self.seconds[0]:.0f} s", flush=True)
        random = np.random.default_rng([seed, len(self.seconds)])
        level = -((np.log10(values["rate"]) + 2.5) ** 2) - (values["margin"] - 0.3) ** 2
        scores = level * (1 + 1 / np.arange(1, STEPS + 1)) + 0.05 * random.standard_normal(STEPS)
        return scores.tolist(), 1.0

    def seconds_per_trial(self, mark: int) -> float:
        first = max(0, mark - WINDOW)
        return (self.seconds[mark - 1] - self.seconds[first]) / (mark - 1 - first)

    def bytes_per_trial(self, mark: int, before: int) -> float:
        return (self.bytes[mark - 1] - self.bytes[before - 1]) / (mark - before)


def measure(trials: int, sampler: str, scheduler: str, repeat_share: float) -> dict[str, Any]:
    meter = Meter()
    simulate(
        SPACE,
        meter.curve,
        sampler=sampler,
        scheduler=scheduler,
        trials=trials,
        max_steps=STEPS,
        repeat_share=repeat_share,
    )
    marks = [mark for mark in MARKS if mark <= len(meter.seconds)]
    return {
        "sampler": sampler,
        "scheduler": scheduler,
        "seconds_per_trial": {mark: round(meter.seconds_per_trial(mark), 5) for mark in marks},
        "bytes_per_trial": {
            mark: round(meter.bytes_per_trial(mark, before)) for before, mark in itertools.pairwise(marks)
        },
        "seconds": round(meter.seconds[-1] - meter.seconds[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--sampler", default="random")
    parser.add_argument("--scheduler", default="asha")
    parser.add_argument("--repeat-share", type=float, default=0.2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = measure(arguments.trials, arguments.sampler, arguments.scheduler, arguments.repeat_share)
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
