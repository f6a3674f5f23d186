"""Seconds that MLflow's records cost a trial: opened, logged to, closed, in a store of SQLite.

    python benchmarks/tracking_overhead.py [--trials 40] [--validations 4]

Each trial has its whole configuration, its data as inputs, four validations with 14 figures each, and its
state at the end; every eighth stores a model, as a search does with its best.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from targets import Targets

from dmltune import load_experiment, tags
from dmltune.core.run import MEASURES
from dmltune.runs import TrackedRun, data_inputs, provenance, training_params
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.orders import TrialReport

FIGURES = (*MEASURES, *(f"figure_{number}" for number in range(14 - len(MEASURES))))
FINGERPRINT, METRIC = "0123456789abcdef", "map_at_r"
MEGABYTES = 8  # of a model


def model_folder(folder: Path) -> Path:
    """Write what looks like a stored model."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(bytes(MEGABYTES << 20))
    about = {"step": 240, "validation": dict.fromkeys(FIGURES, 0.5), "embedding_size": 128}
    (folder / "model.json").write_text(json.dumps(about))
    return folder


def measure(folder: Path, trials: int, validations: int) -> dict[str, list[float]]:
    experiment = load_experiment("glyphs-ccp").reference_experiment()
    tracker = Tracker(Store.at(folder))
    space, about = tracker.experiment("space"), provenance(experiment, FINGERPRINT)
    parent = TrackedRun.open(tracker, space, "s", role="search", metric=METRIC, params={}, about=about)
    model = model_folder(folder / "best")
    seconds: dict[str, list[float]] = {"open": [], "validation": [], "close": [], "model": [], "trial": []}
    for number in range(trials):
        times = [time.perf_counter()]
        run = TrackedRun.open(
            tracker,
            space,
            "s",
            f"{number:04d}",
            role="search",
            metric=METRIC,
            run_name=f"s-{number:04d}",
            params=training_params(experiment),
            about={**about, tags.SEARCHED: "references.lambda"},
            parent=parent,
            inputs=data_inputs(experiment, FINGERPRINT),
        )
        times.append(time.perf_counter())
        for count in range(validations):
            run.log(TrialReport(count, count * 80, 240, dict.fromkeys(FIGURES, 0.1 * count)))
        times.append(time.perf_counter())
        if stored := number % 8 == 0:
            run.store_model(model)
        times.append(time.perf_counter())
        run.end("complete", "max_steps", step=240, best=0.5)
        times.append(time.perf_counter())
        opened, logged, saved, closed = (after - before for before, after in itertools.pairwise(times))
        seconds["open"].append(opened)
        seconds["validation"].append(logged / validations)
        seconds["close"].append(closed)
        seconds["trial"].append(opened + logged + closed)
        if stored:
            seconds["model"].append(saved)
    return {name: values[1:] for name, values in seconds.items()}  # the first one pays for imports


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--validations", type=int, default=4)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dmltune-benchmark-"))
    try:
        seconds = measure(folder, chosen.trials, chosen.validations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, values in seconds.items():
        print(f"{name}: median {1000 * statistics.median(values):.0f} ms of {len(values)}")
    targets = Targets()
    targets.check("a trial without a model", statistics.median(seconds["trial"]), "≤", 0.35, " s")
    targets.end()


if __name__ == "__main__":
    main()
