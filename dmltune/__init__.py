"""dmltune finds the best deep-metric-learning recipe for an image-retrieval problem: laptop or Ray cluster.

    experiment = dmltune.load_experiment("glyphs-ccp")
    result = dmltune.search(experiment, space_name="glyphs-ccp", trials=12)
    for report in dmltune.train(experiment): ...
    dmltune.check(result.name).to_dict()            # unseen classes, folds × seeds, statistics
    dmltune.evaluate(result.name)
    dmltune.load(result.name).embed(["a.jpg", "b.jpg"])    # float32 (N, D); needs neither Ray nor MLflow
    dmltune.simulate(search, curve, trials=40, max_steps=27)    # the same search in simulated time

Names are loaded when they are used: `import dmltune` is quick, and torch, Ray and MLflow come when something
needs them. `dmltune.train`, `dmltune.search` and `dmltune.check` are packages that can be called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmltune.check.api import check
    from dmltune.errors import UserError
    from dmltune.evaluation import evaluate
    from dmltune.experiment import Experiment, load_experiment
    from dmltune.search.api import search
    from dmltune.search.simulation import simulate
    from dmltune.serving import load
    from dmltune.train.api import train

__all__ = [
    "Experiment",
    "UserError",
    "check",
    "evaluate",
    "load",
    "load_experiment",
    "search",
    "simulate",
    "train",
]

_HOMES = {
    "Experiment": "dmltune.experiment",
    "load_experiment": "dmltune.experiment",
    "UserError": "dmltune.errors",
    "search": "dmltune.search",
    "simulate": "dmltune.search.simulation",
    "check": "dmltune.check",
    "train": "dmltune.train",
    "evaluate": "dmltune.evaluation",
    "load": "dmltune.serving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dmltune' has no attribute '{name}'")
    home = importlib.import_module(_HOMES[name])
    return home if name in ("search", "train", "check") else getattr(home, name)
