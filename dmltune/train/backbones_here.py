"""Leave out the searched backbones whose weights are not on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from dmltune.core import backbones
from dmltune.errors import UserError
from dmltune.experiment import Experiment, choosing
from dmltune.experiment.tree import COMPONENTS
from dmltune.weights.folder import find

KEY = "backbone.name"


def backbones_of(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield (backbone, weights) of trial 0, the baseline and every choice of the space."""
    runs = (experiment.reference_experiment(), experiment.baseline_experiment())
    found = dict.fromkeys((run.backbone.name, run.backbone.weights) for run in runs if run)
    parameters = experiment.space.parameters if experiment.searchable else ()
    weights = [choice for each in parameters if each.name == "backbone.weights" for choice in each.choices]
    names = {f"{section}.name" for section in COMPONENTS}
    for parameter in parameters:
        for choice in parameter.choices if parameter.name in names else ():
            view = experiment.space.view({parameter.name: choice})
            found |= dict.fromkeys(product([view[KEY]], weights or [view["backbone.weights"]]))
    if weights and not any(parameter.name in names for parameter in parameters):
        found |= dict.fromkeys((experiment.backbone.name, each) for each in weights)
    yield from found


def only_backbones_here(
    experiment: Experiment, data_root: str | None, begun: Experiment | None = None
) -> tuple[Experiment, list[str]]:
    """Return the experiment with the backbones whose weights are here, and a line for each that is left out.

    A search that has `begun` goes on with the backbones that it began with.
    """
    spec = experiment.search.get(KEY)
    if not isinstance(spec, dict):
        return experiment, []
    choices, lines = list(spec["choice"]), []
    if begun is not None:
        stored = begun.search.get(KEY)
        here = [name for name in choices if isinstance(stored, dict) and name in stored["choice"]]
    else:
        weights = {name: experiment.space.view({KEY: name})["backbone.weights"] for name in choices}
        here = [name for name in choices if is_here(name, weights[name], data_root)]
        lines = [
            f"{name} is left out: its weights are not on this machine (dmltune weights fetch {name})"
            for name in choices
            if name not in here
        ]
    if len(here) == len(choices) or not here:
        return experiment, []  # without any, the setup lists what is missing
    tree = experiment.to_dict()
    if tree["reference_point"][KEY] not in here:
        tree["reference_point"][KEY] = here[0]
    if len(here) > 1:
        tree["search"][KEY] = {**spec, "choice": here}
        return Experiment.from_dict(tree), lines
    del tree["search"][KEY]
    balanced = None if experiment.balanced == KEY else experiment.balanced
    alone = choosing.with_values({**tree, "balanced": balanced}, {KEY: tree["reference_point"].pop(KEY)})
    return Experiment.from_dict(alone), [
        *lines,
        f"{here[0]} is the only one left: there is nothing to compare",
    ]


def is_here(name: str, weights: str, data_root: str | None) -> bool:
    """Return whether a backbone can start from these weights without the network."""
    try:
        source = backbones.weights_source(name, weights)
        if source is None:
            return weights == "none" or Path(weights).is_file()
        return find(source, data_root) is not None
    except UserError:  # its package is not installed, or the file is damaged
        return False
