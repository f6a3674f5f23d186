"""Record whole curves of many configurations with several seeds, on which searches are simulated.

    python benchmarks/record_table.py [--space FILE] [--configurations 60] [--seeds 3] [--work FOLDER]

The configurations are the reference point and points of a scrambled Sobol sequence that satisfy the rules of
the space. All configurations are trained with the first seed, then all with the next one. Every training is
appended to a .jsonl in the work folder, so the same command continues after an interruption. The JSON
beside the space is written at the end, and with --partial from what is there.

A trial of the table has `values`, `seed`, `scores` and `projection` (the figure of CCP; the first projection
is 1) at each of `steps`, and the CPU seconds of a step with its share of the validations. The untrained
network's score is in `untrained`, by seed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from scipy.stats import qmc

from dmltune.core.fit import MEASURES, Diverged, fit
from dmltune.data.feed import ImageFeed
from dmltune.experiment import Experiment, Parameter, SearchSpace, load_experiment
from dmltune.train.build import build_run

SPACE = Path(__file__).parent / "data" / "glyphs-table.yaml"
DIGITS = 4


def points(space: SearchSpace, count: int) -> list[dict[str, Any]]:
    """Return the reference point and the first points of a Sobol sequence that break no rule."""
    chosen = [dict(space.reference_point)]
    sobol = qmc.Sobol(len(space.parameters), seed=0)
    while len(chosen) < count:
        for row in sobol.random(2 ** (count - 1).bit_length()):
            pairs = zip(space.parameters, row, strict=True)
            values = {parameter.name: value_at(parameter, float(u)) for parameter, u in pairs}
            if len(chosen) < count and space.violated(values) is None:
                chosen.append(values)
    return chosen


def value_at(parameter: Parameter, u: float) -> Any:
    """Return the value at the share u in [0, 1) of the parameter's range."""
    if parameter.kind == "choice":
        return parameter.choices[int(u * len(parameter.choices))]
    low, high = float(parameter.low), float(parameter.high)
    if parameter.kind == "int":
        return int(low + u * (high - low + 1))
    value = low * (high / low) ** u if parameter.log else low + u * (high - low)
    return float(f"{value:.4g}")


def curve(
    experiment: Experiment, untrained: dict[str, float] | None
) -> tuple[dict[str, Any], dict[str, float]]:
    """Train; return what the table holds of the run, and the measures of the untrained network."""
    steps: list[int] = []
    scores: list[float] = []
    projections: list[int] = []
    run = build_run(experiment, None, torch.device("cpu"))
    failure, measures = "", dict(untrained or {})
    began = time.process_time()
    try:
        for progress in fit(run, untrained=untrained):
            if progress.step == 0:
                measures = {name: progress.metrics[name] for name in MEASURES}
                began = time.process_time()
                continue
            steps.append(progress.step)
            scores.append(round(progress.score, DIGITS))
            projections.append(int(progress.metrics.get("projection", 1)))
    except Diverged as error:
        failure = str(error)
    finally:
        if isinstance(run.feed, ImageFeed):
            run.feed.close()
    seconds = round((time.process_time() - began) / max(run.step, 1), DIGITS)
    row = {"steps": steps, "scores": scores, "projection": projections, "seconds_per_step": seconds}
    return row | ({"failure": failure} if failure else {}), measures


def record(space_file: Path, configurations: int, seeds: int, lines: Path) -> None:
    """Append a line for each training that has none yet."""
    experiment = load_experiment(str(space_file))
    rows = read(lines)
    have = {(row["configuration"], row["seed"]) for row in rows}
    untrained = {row["seed"]: row["untrained"] for row in rows}
    chosen = points(experiment.space, configurations)
    for seed in range(seeds):
        for number, values in enumerate(chosen):
            if (number, seed) in have:
                continue
            trained = experiment.point(values).with_values({"seed": seed})
            row, untrained[seed] = curve(trained, untrained.get(seed))
            row = (
                {"configuration": number, "seed": seed, "values": values}
                | row
                | {"untrained": untrained[seed]}
            )
            with lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"seed {seed} configuration {number}: {max(row['scores'], default=0):.3f}", flush=True)


def read(lines: Path) -> list[dict[str, Any]]:
    """Return the rows of whole lines: the last one may have been cut."""
    if not lines.is_file():
        return []
    text = lines.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        lines.write_text(text, encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(space_file: Path, lines: Path) -> Path:
    """Write the JSON of all recorded rows beside the space."""
    rows = read(lines)
    experiment = load_experiment(str(space_file))
    steps = max((row["steps"] for row in rows), key=len)
    for row in rows:
        assert row["steps"] == steps[: len(row["steps"])]
    seeds = sorted({row["seed"] for row in rows})
    untrained = {row["seed"]: row["untrained"][experiment.objective.metric] for row in rows}
    head = {
        "space": space_file.name,
        "metric": experiment.objective.metric,
        "max_steps": experiment.max_steps,
        "steps": steps,
        "untrained": [round(untrained[seed], DIGITS) for seed in seeds],
        "configurations": [
            next(row["values"] for row in rows if row["configuration"] == number)
            for number in range(1 + max(row["configuration"] for row in rows))
        ],
    }
    keys = ("configuration", "seed", "scores", "projection", "seconds_per_step", "failure")
    trials = [{key: row[key] for key in keys if key in row} for row in rows]
    trials.sort(key=lambda trial: (trial["configuration"], trial["seed"]))
    text = json.dumps(head)[:-1] + ', "trials": [\n' + ",\n".join(map(json.dumps, trials)) + "\n]}\n"
    target = space_file.with_suffix(".json")
    target.write_text(text, encoding="utf-8")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", type=Path, default=SPACE)
    parser.add_argument("--configurations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--partial", action="store_true", help="write the JSON of what is recorded, and end")
    chosen = parser.parse_args()
    lines = chosen.work / f"{chosen.space.stem}.jsonl"
    if not chosen.partial:
        torch.set_num_threads(1)
        record(chosen.space, chosen.configurations, chosen.seeds, lines)
    print(f"wrote {write(chosen.space, lines)}")


if __name__ == "__main__":
    main()
