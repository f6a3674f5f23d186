"""A search as its runs describe it: the experiment with its space, the trials, the winner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dmltune import tags
from dmltune.check.parsing import parse
from dmltune.errors import UserError, readable
from dmltune.experiment import Experiment
from dmltune.tracking import Tracker

RESULT, EXPERIMENT = "result.json", "experiment.json"
POINTS = ("reference", "search")  # the roles of points of the space


@dataclass(frozen=True)
class FinishedTrial:
    """A trial of result.json; `best` is its best score on the validation classes."""

    number: int
    role: str
    state: str
    best: float | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FinishedSearch:
    """What a check reads of a search that has ended."""

    name: str
    space_name: str
    trials: Annotated[tuple[FinishedTrial, ...], Field(alias="rows")]
    metric: str
    mode: str
    protocol: str
    experiment: Annotated[Experiment, BeforeValidator(Experiment.from_dict)]
    fingerprint: str  # of the training images

    def complete_trials(self) -> list[FinishedTrial]:
        """Return the completed points of the space, best first."""
        sign = -1 if self.mode == "max" else 1
        points = (trial for trial in self.trials if trial.role in POINTS and trial.state == "complete")
        scored = [trial for trial in points if trial.best is not None]
        return sorted(scored, key=lambda trial: (sign * (trial.best or 0.0), trial.number))

    def best(self, top: int) -> list[FinishedTrial]:
        complete = self.complete_trials()
        if not complete:
            raise UserError(
                f"search '{self.name}' has no complete trial yet. "
                "Continue it with the same command, then check it."
            )
        if top > len(complete):
            raise UserError(
                f"--top must be at most {len(complete)}, the complete trials of '{self.name}'; got {top}"
            )
        return complete[:top]


def load_finished_search(name: str, tracker: Tracker) -> FinishedSearch:
    run = tracker.find(name)
    if run is None:
        raise tracker.unknown("search", name)
    role = run.data.tags.get(tags.ROLE, "run")
    if role != "search":
        raise UserError(f"dmltune check needs a search; {readable(name)} is a {role}. Name the search.")
    tree = tracker.read_json(run.info.run_id, RESULT)
    settings = tracker.read_json(run.info.run_id, EXPERIMENT)
    if (tree is None or settings is None) and run.data.tags.get(tags.STATE) == "complete":
        missing = RESULT if tree is None else EXPERIMENT
        raise UserError(
            f"search '{name}' is complete, and its artifact {missing} is missing. "
            "Put the store back to its place, or restore it from a backup."
        )
    if tree is None:
        raise UserError(
            f"search '{name}' has not ended yet. Continue it with the same command, then check it."
        )
    fingerprint = run.data.tags.get(tags.DATA, "").rpartition(":")[2]
    if isinstance(tree, dict):
        tree |= {"experiment": settings, "fingerprint": fingerprint}
    remedy = "Restore the store from a backup, or search again under another --name."
    return parse(FinishedSearch, tree, f"the result of search '{name}'", remedy)
