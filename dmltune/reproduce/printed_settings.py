"""The settings that a paper states for its trainings, and where a training here differs from them.

`setting:` of a table, a data set, a part and a row are dotted keys of an experiment with printed values, the
later over the earlier ones. `methods:` has those of a method: `references.name=ccp: {references.proxies: 8}`.
A mapping in place of a value has one for each data set. `warmup_epochs` is in print what
optimizer.warmup_new_layers is in steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dmltune.data import catalog, splits
from dmltune.experiment import Experiment
from dmltune.experiment.problems import show
from dmltune.reproduce.paper_tables import Facts, Table

WARMUP, STEPS = "warmup_epochs", "optimizer.warmup_new_layers"


def printed_setting(table: Table, row: str, data: str, experiment: Experiment) -> dict[str, Any]:
    """Return dotted key → value as printed for a cell; `experiment` tells which methods apply."""
    chosen, facts = table.rows[row], dict(_of_data(table.setting, data))
    facts |= _of_data(table.data[data].setting, data)
    facts |= _of_data(table.parts[chosen.part].setting if chosen.part else {}, data)
    for method, own in table.methods.items():
        key, _, value = method.partition("=")
        if str(experiment.get(key)) == value:
            facts |= _of_data(own, data)
    facts |= _of_data(chosen.setting, data)
    if WARMUP in facts:
        facts[STEPS] = _steps(facts.pop(WARMUP), table.protocol, experiment)
    return facts


def deviations(table: Table, row: str, data: str, experiment: Experiment) -> list[str]:
    """Return a line for each printed setting that the training has otherwise."""
    lines = []
    for key, printed in printed_setting(table, row, data, experiment).items():
        ours = experiment.get(key)
        ours = list(ours) if isinstance(ours, tuple) else ours
        if ours != printed:
            lines.append(f"{key}: {show(printed)} in print, {show(ours)} here")
    return lines


def _of_data(facts: Facts, data: str) -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if not isinstance(value, Mapping):
            yield key, value
        elif data in value:
            yield key, value[data]


def _steps(epochs: float, protocol: str, experiment: Experiment) -> int | None:
    """Return the steps of so many epochs of the training classes' share of all training images."""
    images = catalog.published(experiment.data.name).get("train", (None, None))[0]
    if not epochs or images is None:
        return 0 if not epochs else None
    parts = splits.folds(protocol)
    share = 1.0 if protocol == splits.CONVENTIONAL else 1 - 1 / parts
    return round(epochs * images * share / experiment.batch.size)
