"""Is everything there after the faults, once, and nothing else?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import mlflow
from chaos_world import NAME, STEPS, World, title_of
from optuna.trial import TrialState
from support.clusters import ENVIRONMENT

METRIC = "map_at_r"
LASTING = {"experiment.json", "lock", "holder", "trials", "space.yaml"}
# of a cluster, not of a driver; Ray Train has one coordinator for each cluster
_IDLE = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::_AutoscalingCoordinatorActor")
_OF_OTHERS = (
    "dmlc-",
    "torchinductor_",
)  # the cluster's own folder and one of torch
_STATE = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
groups = [group["state"] for group in ray.util.placement_group_table().values()]
print(json.dumps([groups, ray.available_resources().get("CPU", 0), ray.cluster_resources().get("CPU", 0)]))
"""


def problems_of(world: World) -> list[str]:
    trials = world.trials_of_study()
    client = mlflow.MlflowClient(world.mlflow.uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.`dmltune.search` = '{NAME}'", max_results=5000)
    return [
        *world.problems,
        *_of_drivers(world),
        *_of_runs(trials, runs, world.trials),
        *_of_points(client, trials, runs),
        *_of_models(client, trials, runs),
        *_of_processes(world),
        *_of_files(world),
    ]


def _of_drivers(world: World) -> list[str]:
    return ["the driver has shown a traceback"] if "Traceback" in world.log() else []


def _of_runs(trials: list[Any], runs: list[Any], planned: int) -> list[str]:
    expected = Counter([f"{trial.number:04d}" for trial in trials] + ["parent"])
    found = Counter(run.data.tags["dmltune.number"] for run in runs)
    problems = [] if len(trials) >= planned else [f"{len(trials)} trials of {planned}"]
    problems += [
        f"runs of {number}: {found[number]}, not {expected[number]}"
        for number in expected | found
        if found[number] != expected[number]
    ]
    problems += [
        f"trial {trial.number} is {trial.state.name}: {trial.user_attrs.get('reason')}"
        for trial in trials
        if trial.state != TrialState.COMPLETE
    ]
    return problems + [
        f"run {run.data.tags['dmltune.number']} is {run.info.status}"
        for run in runs
        if run.info.status != "FINISHED"
    ]


def _of_points(client: Any, trials: list[Any], runs: list[Any]) -> list[str]:
    problems, by_number = list[str](), {run.data.tags["dmltune.number"]: run for run in runs}
    steps_of: dict[str, dict[int, tuple[int, ...]]] = {}  # metric → trial → its steps
    for trial in trials:
        run = by_number.get(f"{trial.number:04d}")
        if run is None:
            continue
        for name in run.data.metrics:
            points = client.get_metric_history(run.info.run_id, name)
            steps_of.setdefault(name, {})[trial.number] = tuple(sorted(point.step for point in points))
            if name == METRIC:
                values = {point.step: point.value for point in points}
                if values != trial.intermediate_values or tuple(sorted(values)) != STEPS:
                    problems.append(
                        f"trial {trial.number}: MLflow {values}, study {trial.intermediate_values}"
                    )
        best = run.data.metrics.get(f"best_{METRIC}")
        if best != trial.value:
            problems.append(f"trial {trial.number}: best {best} in MLflow, {trial.value} in the study")
    for name, by_trial in steps_of.items():
        (usual, _), *_ = Counter(by_trial.values()).most_common(1)
        problems += [
            f"trial {number}: {name} has points at {steps}, others at {usual}"
            for number, steps in by_trial.items()
            if len(steps) != len(set(steps)) or (steps != usual and not name.startswith("system/"))
        ]
    return problems


def _of_models(client: Any, trials: list[Any], runs: list[Any]) -> list[str]:
    """Every run that should have a model has one, whose files are there."""
    problems = []
    for run in runs:
        number = run.data.tags["dmltune.number"]
        if run.data.tags.get("dmltune.model") != "stored":
            continue
        outputs = run.outputs.model_outputs if run.outputs else []
        if len(outputs) != 1:
            problems.append(f"run {number} has {len(outputs)} models")
        for output in outputs:
            if not client.list_logged_model_artifacts(output.model_id):
                problems.append(f"the model of run {number} has no files")
    return problems


def _of_processes(world: World) -> list[str]:
    """Nothing of a driver's is left on the cluster, or anywhere."""
    problems: list[str] = []
    until = time.monotonic() + 20
    while (left := _left_of_drivers(world)) and time.monotonic() < until:
        time.sleep(1)
    problems += [f"a process outlives its driver: {title[:80]}" for title in left]
    if world.cluster is None:
        return problems
    done = subprocess.run(
        [sys.executable, "-c", _STATE, world.cluster.address],
        capture_output=True, text=True, timeout=120, env=world.environment() | ENVIRONMENT, check=True,
    )  # fmt: skip
    groups, free, total = json.loads(done.stdout.splitlines()[-1])
    problems += [f"a placement group is {state}" for state in groups if state != "REMOVED"]
    return problems + ([f"{free} of {total} CPUs are free"] if free != total else [])


def _left_of_drivers(world: World) -> list[str]:
    titles = [title_of(process) for process in world.look()]
    return [
        title
        for title in titles
        if (title.startswith("ray::") and not title.startswith(_IDLE)) or "dmltune search" in title
    ]


def _of_files(world: World) -> list[str]:
    folder = world.store / "searches" / NAME
    stray = [path for path in folder.iterdir() if path.name not in LASTING]
    stray += list((folder / "trials").iterdir())
    stray += [path for path in world.temporary.iterdir() if not path.name.startswith(_OF_OTHERS)]
    return [f"stray file {path.relative_to(world.folder)}" for path in stray]
