"""What a check compares: the winner of a search, the paper's point, the baseline; each a fixed experiment."""

from __future__ import annotations

import hashlib
import json

from dmltune.experiment import Experiment

VARIES = ("fold", "seed")  # between the models of one configuration


def digest(experiment: Experiment) -> str:
    """12 hexadecimal digits that name the configuration, whatever its fold and seed."""
    tree = experiment.fixed().to_dict()
    for key in (*VARIES, "about", "presets", "trials", "sampler", "scheduler"):
        tree.pop(key, None)
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:12]
