"""The configurations of a check: winner of a search, reference point, baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import BeforeValidator

from dmltune.check.finished_search import FinishedSearch
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.experiment import tree as trees
from dmltune.experiment.loading import parse_overrides
from dmltune.experiment.schema import components
from dmltune.store import validated_name

WINNER, REFERENCE, BASELINE = "winner", "reference", "baseline"
NOT_OF_THE_TRAINING = (
    *("fold", "seed", "about", "presets", "balanced", "trials", "sampler", "scheduler"),
    *("repeat_share", "stop_at_noise"),
)


def _read_experiment(tree: Any) -> Experiment:
    return tree if isinstance(tree, Experiment) else Experiment.from_validated(tree)


@dataclass(frozen=True)
class Configuration:
    """A fixed experiment. Configurations that are equal become one with the labels of all.

    `key` is a part of the file names of its models, `labels` are shown. `values` are the dotted keys in which
    it differs from the others.
    """

    key: str
    labels: tuple[str, ...]
    experiment: Annotated[Experiment, BeforeValidator(_read_experiment)]
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return digest(self.experiment)


def digest(experiment: Experiment) -> str:
    """Return 12 hexadecimal digits that name the configuration, whatever its fold and seed.

    An older version may not have known all parameters of a component: their defaults are filled in.
    """
    tree = experiment.fixed().to_dict()
    for key in NOT_OF_THE_TRAINING:
        tree.pop(key, None)
    del tree["objective"]["folds"]
    components.complete(tree)
    del tree["presets"]
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:12]


def of_search(
    search: FinishedSearch, top: int = 1, tuned: Configuration | None = None
) -> list[Configuration]:
    """Return the `top` best trials, the reference point, and the baseline or the `tuned` one."""
    space = search.experiment
    configurations = [
        Configuration(
            f"trial-{trial.number:04d}" if place else WINNER,
            (f"trial {trial.number}",) if place else (WINNER,),
            space.point(trial.values),
            trial.values,
        )
        for place, trial in enumerate(search.best(top))
    ]
    reference = dict(space.space.reference_point)
    configurations.append(Configuration(REFERENCE, ("reference point",), space.point(reference), reference))
    baseline = space.baseline_experiment()
    if tuned is not None:
        configurations.append(tuned)
    elif baseline is not None:
        configurations.append(Configuration(BASELINE, (BASELINE,), baseline, trees.flatten(space.baseline)))
    return merged(configurations)


def key_of_label(configurations: Iterable[Configuration], label: str) -> str | None:
    return next((each.key for each in configurations if label in each.labels), None)


def merged(configurations: Iterable[Configuration]) -> list[Configuration]:
    """Return equal configurations as one, under the first key and with the labels of all."""
    by_digest: dict[str, Configuration] = {}
    for each in configurations:
        first = by_digest.setdefault(each.digest, each)
        labels = tuple(dict.fromkeys((*first.labels, *each.labels)))
        by_digest[each.digest] = replace(first, labels=labels)
    return list(by_digest.values())


def changed(configurations: Iterable[Configuration], overrides: Sequence[str]) -> list[Configuration]:
    """Return all with `key=value` overrides, which exclude what the search varied."""
    values, configurations = parse_overrides(overrides), list(configurations)
    for key in values:
        if key in ("fold", "seed", "objective.protocol") or key.split(".")[0] in ("search", "baseline"):
            raise UserError(f"{key} is set by the check. Leave it out, and use --folds and --repeats.")
        if any(key == own or own.startswith(f"{key}.") for each in configurations for own in each.values):
            raise UserError(
                f"the configurations differ in {key}, so it cannot be overridden. "
                "Leave it out, or search with it fixed."
            )
    return merged(replace(each, experiment=each.experiment.with_values(values)) for each in configurations)


def validate_configurations(configurations: Sequence[Configuration], baseline: str | None) -> None:
    """Raise a UserError unless keys are distinct names and all have the same data."""
    if not configurations:
        raise UserError("a check needs a configuration; got none")
    keys = [validated_name(each.key) for each in configurations]
    if len(set(keys)) < len(keys):
        raise UserError(f"every configuration needs a key of its own; got {', '.join(keys)}")
    if baseline is not None and baseline not in keys:
        raise UserError(f"the baseline must be one of {', '.join(keys)}; got '{baseline}'")
    data = {
        (part.name, part.classes, part.path) for part in (each.experiment.data for each in configurations)
    }
    if len(data) > 1:
        names = ", ".join(sorted({name for name, _, _ in data}))
        raise UserError(f"all configurations must have the same data; got {names}")
