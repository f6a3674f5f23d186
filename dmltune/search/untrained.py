"""The network before its first step: equal for all trials with the same network and data, measured once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from dmltune.core import components
from dmltune.core.run import MEASURES
from dmltune.experiment import Experiment
from dmltune.search.study import Study

_SECTIONS = ("data", "backbone", "embedding", "pooling", "seed", "fold", "precision")
_ATTRIBUTE = "untrained"


class UntrainedMeasures:
    """Measures at step 0 by network, stored in the study so that a resumed search has them."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._measures: dict[str, dict[str, float]] = dict(study.attribute(_ATTRIBUTE, {}))

    def get(self, experiment: Experiment) -> dict[str, float] | None:
        return self._measures.get(network_key(experiment))

    def store(self, experiment: Experiment, metrics: Mapping[str, float]) -> None:
        key = network_key(experiment)
        if key not in self._measures:
            self._measures[key] = {name: metrics[name] for name in MEASURES}
            self._study.set_attribute(_ATTRIBUTE, self._measures)


def network_key(experiment: Experiment) -> str:
    """Return a digest of all that the untrained embedding and its validation set depend on."""
    tree = experiment.to_dict()
    parts = {name: tree[name] for name in _SECTIONS}
    parts["protocol"] = experiment.objective.protocol
    references = components.find("references", experiment.references.name)
    parts["normalise"] = getattr(references, "normalise", "")
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
