"""Is everything there after the faults, once, and nothing else?"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mlflow
import optuna
import ray
from chaos_world import NAME, World

METRIC = "map_at_r"
LASTING = {"experiment.json", "lock", "holder", "trials", "space.yaml"}


def problems_of(world: World) -> list[str]:
    trials = optuna.load_study(study_name=NAME, storage=world.studies).trials
    client = mlflow.MlflowClient(world.tracking_uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.`dmltune.search` = '{NAME}'", max_results=5000)
    return [
        *_of_runs(trials, runs),
        *_of_points(client, trials, runs),
        *_of_cluster(world),
        *_of_files(world),
    ]


def _of_runs(trials: list[Any], runs: list[Any]) -> list[str]:
    expected = Counter([f"{trial.number:04d}" for trial in trials] + ["parent"])
    found = Counter(run.data.tags["dmltune.number"] for run in runs)
    problems = [f"runs of {number}: {found[number]}, not {expected[number]}" for number in expected | found
                if found[number] != expected[number]]  # fmt: skip
    problems += [f"trial {trial.number} is {trial.state.name}" for trial in trials
                 if trial.state.name not in ("COMPLETE", "PRUNED")]  # fmt: skip
    problems += [f"run {run.data.tags['dmltune.number']} is {run.info.status}" for run in runs
                 if run.info.status != "FINISHED"]  # fmt: skip
    return problems


def _of_points(client: Any, trials: list[Any], runs: list[Any]) -> list[str]:
    problems, by_number = [], {run.data.tags["dmltune.number"]: run for run in runs}
    for trial in trials:
        run = by_number.get(f"{trial.number:04d}")
        if run is None:
            continue
        for name in run.data.metrics:
            points = client.get_metric_history(run.info.run_id, name)
            steps = [point.step for point in points]
            if len(steps) != len(set(steps)):
                problems.append(f"trial {trial.number}: {name} has a point twice: {steps}")
            if name == METRIC:
                values = {point.step: point.value for point in points}
                if values != trial.intermediate_values:
                    problems.append(
                        f"trial {trial.number}: MLflow {values}, study {trial.intermediate_values}"
                    )
        best = run.data.metrics.get(f"best_{METRIC}")
        if trial.value is not None and best != trial.value:
            problems.append(f"trial {trial.number}: best {best} in MLflow, {trial.value} in the study")
    return problems


def _of_cluster(world: World) -> list[str]:
    time.sleep(5)
    left = world.processes("RayTrainWorker", "TrainController", "ray::Broker", "dmltune search")
    ray.init(address=world._cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        groups = ray.util.placement_group_table().values()
        states = Counter(group["state"] for group in groups)
        free, total = ray.available_resources().get("CPU", 0), ray.cluster_resources().get("CPU", 0)
    finally:
        ray.shutdown()
    problems = [
        f"{count} placement groups are {state}" for state, count in states.items() if state != "REMOVED"
    ]
    problems += [f"a process outlives its driver: {title[:80]}" for title in left]
    return problems + ([f"{free} of {total} CPUs are free"] if free != total else [])


def _of_files(world: World) -> list[str]:
    folder = world.store / "searches" / NAME
    stray = [str(path.name) for path in folder.iterdir() if path.name not in LASTING]
    stray += [str(path) for path in (folder / "trials").iterdir()]
    pattern, alive = "dmltune-ray-*", {each.pid for each in world.seen.values() if each.is_running()}
    for path in Path(tempfile.gettempdir()).glob(pattern):
        pid = path.name.removeprefix("dmltune-ray-").partition("-")[0]
        if pid.isdigit() and int(pid) in world.seen and int(pid) not in alive:
            stray.append(str(path))
    return [f"stray file {name}" for name in stray]
