"""Every loss × references × pooling × transform × zero-shot that the search spaces train, small enough for
the toy problem: memories that wrap around and projections that change within three steps.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment

FOUND = "DMLTUNE_TEST_COMBINATIONS"  # handed to child processes: reading all spaces takes seconds
SPACES = Path(__file__).parents[2] / "search_spaces"
SMALL: dict[str, dict[str, Any]] = {
    "ccp": {"patience": 1, "proxies": 2, "pool_size": 3, "lambda": 0.5},
    "xbm": {"size": 20, "start_step": 1},  # batches of 12: a wrap-around in the middle of the second one
    "gsp": {"prototypes": 4},
    "netvlad": {"clusters": 2},
    "otp": {"clusters": 2},
    "soft_triple": {"centers": 2},
    "sft": {"tail_below": 10},
}
ALWAYS = [  # what no space combines, and its parts could
    {"loss": "contrastive", "references": "xbm"},
    {"loss": "contrastive_cosine", "references": "xbm", "pooling": "gsp", "zero_shot": True},
    {"loss": "multi_similarity", "references": "xbm"},
    {"loss": "contrastive", "transform": "sft", "form": "degenerate"},
    {"loss": "contrastive", "transform": "sft", "form": "ftl"},
    {"loss": "triplet", "transform": "sft", "form": "rotate", "centres": "pick"},
]


def combinations() -> dict[str, dict[str, Any]]:
    """A name that tells the parts → the parts, with their parameters under `parameters`."""
    found: dict[str, dict[str, Any]] = json.loads(os.environ.get(FOUND, "{}"))
    if found:
        return found
    for file in sorted(SPACES.glob("*.yaml")):
        for experiment in _runs(load_experiment(file.stem)):
            _add(found, _parts(experiment))
    for parts in ALWAYS:
        _add(found, {"references": "batch", "pooling": "gap", "transform": "identity", **parts})
    os.environ[FOUND] = json.dumps(found)
    return found


def _runs(experiment: Experiment) -> list[Experiment]:
    """The reference point with each name that the search may choose, and the baseline."""
    start = experiment.reference_experiment()
    runs = [start, experiment.baseline_experiment() or start]
    for key, spec in experiment.search.items():
        if key.endswith(".name"):
            runs += [_with_name(start, key, name) for name in spec["choice"]]
    return runs


def _with_name(start: Experiment, key: str, name: str) -> Experiment:
    try:
        return start.with_values({key: name})
    except UserError:  # a pooling without attributes
        return start.with_values({key: name, "zero_shot.weight": 0.0})


def _parts(experiment: Experiment) -> dict[str, Any]:
    parts: dict[str, Any] = {
        section: experiment.get(f"{section}.name")
        for section in ("loss", "references", "pooling", "transform")
    }
    if parts["transform"] == "sft":
        parts |= {key: experiment.get(f"transform.{key}") for key in ("form", "scheme")}
    if parts["loss"] == "metric_cross_entropy":
        parts["metric"] = experiment.get("loss.metric")
    return parts | {"zero_shot": experiment.zero_shot.weight > 0}


def _add(found: dict[str, dict[str, Any]], parts: dict[str, Any]) -> None:
    keys = ("loss", "metric", "references", "pooling", "transform", "form", "scheme", "centres")
    words = [str(parts[key]) for key in keys if key in parts]
    found["-".join(words + ["zero_shot"] * bool(parts.get("zero_shot")))] = parts


def parameters(parts: dict[str, Any], section: str) -> dict[str, Any]:
    """What the component of a section is made with."""
    chosen = dict(SMALL.get(parts[section], {}))
    if section == "transform":
        chosen |= {key: parts[key] for key in ("form", "scheme", "centres") if key in parts}
    if section == "loss" and parts.get("metric") == "weak":
        chosen |= {"metric": "weak", "a": 0.0, "b": 1.0, "p": 1.0}
    return chosen
