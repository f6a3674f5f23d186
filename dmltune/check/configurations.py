"""What a check compares: the winner of a search, the paper's point, the baseline; each a fixed experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dmltune.check.finished_search import FinishedSearch
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.experiment import tree as trees
from dmltune.experiment.overrides import parse_overrides
from dmltune.store import validated_name

WINNER, REFERENCE, BASELINE = "winner", "reference", "baseline"
NOT_THE_RUN = ("fold", "seed", "about", "presets", "trials", "sampler", "scheduler")


@dataclass(frozen=True)
class Configuration:
    """`key` names its members on disk, `labels` are for people: equal configurations are one, with all their
    labels. `values` are the dotted keys that make it differ from the others."""

    key: str
    labels: tuple[str, ...]
    experiment: Experiment
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return digest(self.experiment)


def digest(experiment: Experiment) -> str:
    """12 hexadecimal digits that name the configuration, whatever its fold and seed."""
    tree = experiment.fixed().to_dict()
    for key in NOT_THE_RUN:
        tree.pop(key, None)
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:12]


def of_search(found: FinishedSearch, top: int = 1, tuned: Configuration | None = None) -> list[Configuration]:
    """The `top` best complete trials, the reference point, and the baseline or the `tuned` one."""
    space = found.experiment
    listed = [
        Configuration(
            f"trial-{row['number']:04d}" if place else WINNER,
            (f"trial {row['number']}",) if place else (WINNER,),
            space.point(row["values"]),
            row["values"],
        )
        for place, row in enumerate(found.best(top))
    ]
    reference = dict(space.space.reference_point)
    listed.append(Configuration(REFERENCE, ("reference point",), space.point(reference), reference))
    baseline = space.baseline_experiment()
    if tuned is not None:
        listed.append(tuned)
    elif baseline is not None:
        listed.append(Configuration(BASELINE, (BASELINE,), baseline, trees.flatten(space.baseline)))
    return merged(listed)


def key_of(configurations: Iterable[Configuration], label: str) -> str | None:
    return next((one.key for one in configurations if label in one.labels), None)


def merged(configurations: Iterable[Configuration]) -> list[Configuration]:
    """Equal ones become one under the first key, with the labels of all."""
    found: dict[str, Configuration] = {}
    for one in configurations:
        same = found.get(one.digest)
        labels = (*same.labels, *one.labels) if same else one.labels
        found[one.digest] = replace(same or one, labels=tuple(dict.fromkeys(labels)))
    return list(found.values())


def changed(configurations: Iterable[Configuration], overrides: Sequence[str]) -> list[Configuration]:
    """All with `key=value` laid over them. What the search varied is not to be changed for all alike."""
    values = parse_overrides(overrides)
    listed = list(configurations)
    for key in values:
        if key in ("fold", "seed", "objective.protocol") or key.split(".")[0] in ("search", "baseline"):
            raise UserError(f"{key} belongs to the check itself; leave it out, see --folds and --repeats.")
        if any(key == own or own.startswith(f"{key}.") for one in listed for own in one.values):
            raise UserError(
                f"{key} is what the configurations differ in; leave it out, or search with it fixed."
            )
    return merged(replace(one, experiment=one.experiment.with_values(values)) for one in listed)


def check_keys(configurations: Sequence[Configuration], baseline: str | None) -> None:
    """Keys are parts of file names, and each means one configuration; all look at the same data."""
    if not configurations:
        raise UserError("a check needs a configuration; got none")
    keys = [validated_name(one.key) for one in configurations]
    if len(set(keys)) < len(keys):
        raise UserError(f"configurations need keys of their own; got {', '.join(keys)}")
    if baseline is not None and baseline not in keys:
        raise UserError(f"the baseline must be one of {', '.join(keys)}; got '{baseline}'")
    data = [
        (one.experiment.data.name, one.experiment.data.classes, one.experiment.data.path)
        for one in configurations
    ]
    if len(set(data)) > 1:
        raise UserError(
            f"configurations must share their data to be compared; got {sorted({d[0] for d in data})}"
        )
