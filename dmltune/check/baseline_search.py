"""The baseline's own search: as many trials as the method had, over what applies to the baseline too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmltune.check.configurations import BASELINE, Configuration
from dmltune.check.finished_search import FinishedSearch
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Problem
from dmltune.experiment.validation import build_space
from dmltune.search.state import Watch
from dmltune.store import Store

RATE = "optimizer.lr"
DECADE = 10.0


def tuned_baseline(
    found: FinishedSearch,
    *,
    workers: int,
    concurrent: int | None,
    address: str | None,
    store: Store,
    data_root: Path | None,
    say: Callable[[str], None],
    watch: Watch | None,
) -> Configuration | None:
    """The winner of the search SEARCH-baseline, which is run or continued; None when it was stopped."""
    from dmltune.search.api import search

    space = baseline_space(found.experiment)
    trials = sum(row["role"] != BASELINE for row in found.rows)
    name = f"{found.name}-baseline"
    say(f"search {name}: {trials} trials over {', '.join(space.search)}, as many as {found.name} had")
    result = search(
        space,
        space_name=found.space_name,
        name=name,
        trials=trials,
        workers=workers,
        concurrent=concurrent,
        store=store,
        data_root=data_root,
        address=address,
        watch=watch,
    )
    if result.interrupted:
        return None
    if result.winner is None:
        raise UserError(f"search {name} has no complete trial; look at its runs, then check again")
    values = trees.flatten(found.experiment.baseline) | result.winner.values
    return Configuration(BASELINE, (BASELINE,), space.point(result.winner.values), values)


def baseline_space(experiment: Experiment) -> Experiment:
    """The baseline with every searched key that it has as well and does not fix, and the rules that still
    speak of something; with the learning rate, a decade up and down, when no key is left.
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
        search[RATE] = {"float": [rate / DECADE, rate * DECADE], "log": True}
    require: list[str] = []
    for rule in experiment.require:
        if _space(tree | {"search": search, "require": [*require, rule]}) is not None:
            require.append(rule)
    space = _space(tree | {"search": search, "require": require})
    if space is None:
        raise UserError("--fair-baseline: no space for the baseline can be made of this search's")
    return space


def _space(tree: dict[str, Any]) -> Experiment | None:
    """The experiment of this tree when it can be searched."""
    try:
        return build_space(tree)
    except Problem:
        return None
