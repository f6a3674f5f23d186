"""A search for the baseline with as many trials as the checked search had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmltune.check.configurations import BASELINE, Configuration
from dmltune.check.finished_search import POINTS, FinishedSearch
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Problem
from dmltune.experiment.validation import build_space
from dmltune.resources import Locations, Resources
from dmltune.search.state import Watch


def baseline_name(search: FinishedSearch) -> str:
    return f"{search.name}-baseline"


def tuned_baseline(
    finished: FinishedSearch,
    resources: Resources,
    locations: Locations,
    log: Callable[[str], None],
    watch: Watch | None,
) -> Configuration | None:
    """Run or continue the search SEARCH-baseline; None when it was stopped."""
    from dmltune.search.api import search

    space = baseline_space(finished.experiment)
    trials = sum(trial.role in POINTS for trial in finished.trials)
    name = baseline_name(finished)
    log(f"search {name}: {trials} trials over {', '.join(space.search)}, as many as {finished.name} had")
    result = search(
        space,
        space_name=finished.space_name,
        name=name,
        trials=trials,
        workers=resources.workers,
        concurrent=resources.concurrent,
        address=resources.address,
        per_worker=resources.per_worker,
        store=locations.store,
        data_root=locations.data_root,
        watch=watch,
    )
    if result.interrupted:
        return None
    if result.winner is None:
        raise UserError(f"search {name} has no complete trial. Look at its runs, then check again.")
    values = trees.flatten(finished.experiment.baseline) | result.winner.values
    return Configuration(BASELINE, (BASELINE,), space.point(result.winner.values), values)


def baseline_space(experiment: Experiment) -> Experiment:
    """Return the baseline with the part of the search space that applies to it.

    These are the varied keys that the baseline has and does not fix, and the rules that still have a meaning.
    Without such a key the learning rate is varied by a decade in both directions.
    """
    baseline = experiment.baseline_experiment()
    if baseline is None:
        raise UserError("--fair-baseline: this search has no baseline; give its space a `baseline:`")
    tree = baseline.to_dict()
    fixed = trees.flatten(experiment.baseline)
    search: dict[str, Any] = {}
    for key, spec in experiment.to_dict()["search"].items():
        if key not in fixed and _space(tree | {"search": search | {key: spec}}) is not None:
            search[key] = spec
    if not search:
        rate = baseline.optimizer.lr
        search["optimizer.lr"] = {"float": [rate / 10, rate * 10], "log": True}
    require: list[str] = []
    for rule in experiment.require:
        if _space(tree | {"search": search, "require": [*require, rule]}) is not None:
            require.append(rule)
    space = _space(tree | {"search": search, "require": require})
    if space is None:
        raise UserError("--fair-baseline: this search's space has no part that applies to the baseline")
    return space


def _space(tree: dict[str, Any]) -> Experiment | None:
    """Return the experiment of this tree when it can be searched."""
    try:
        return build_space(tree)
    except Problem:
        return None
