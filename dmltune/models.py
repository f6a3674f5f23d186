"""From a name to a model: that of a search's winner, of one run, or of a space in which nothing learns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dmltune import tags
from dmltune.core import references
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.experiment.files import places
from dmltune.experiment.loading import parse_overrides
from dmltune.tracking import Run, Tracker
from dmltune.train.build import build_embedder, learns
from dmltune.train.inference import read_embedder


@dataclass(frozen=True)
class EvaluatedModel:
    """An embedder, and the run that it comes from. Without a run it is untrained."""

    name: str
    experiment: Experiment
    embedder: Embedder
    step: int = 0
    trained_on: str = ""
    trial: str = ""
    run_id: str = ""

    @property
    def untrained(self) -> bool:
        return not self.run_id


def find_model(name: str, tracker: Tracker, overrides: Sequence[str] = ()) -> EvaluatedModel:
    """Return the model of the run or search `name`, or of the space `name` when nothing in it learns."""
    if tracker.find(name) is None:
        return _untrained(name, tracker, overrides)
    with run_with_model(name, tracker) as (run, folder):
        embedder, experiment, description = read_embedder(folder)
    run_id, labels = run.info.run_id, run.data.tags
    return EvaluatedModel(
        name=labels.get(tags.NAME, name),
        experiment=_other_data(experiment, overrides),
        embedder=embedder,
        step=description.step,
        trained_on=description.data,
        trial=labels.get(tags.NUMBER, ""),
        run_id=run_id,
    )


@contextlib.contextmanager
def run_with_model(name: str, tracker: Tracker) -> Iterator[tuple[Run, Path]]:
    """Yield the run whose model `name` stands for, and a folder with it. Without one this is a UserError."""
    run = tracker.find(name)
    if run is None:
        raise tracker.unknown("search, training or run", name)
    run = _run_with_model(name, run, tracker)
    run_id = run.info.run_id
    with tracker.model_folder(run_id) as folder:
        if folder is None:
            state = run.data.tags.get(tags.MODEL, "it did not finish")
            raise UserError(f"run {run_id} has no model ({state}). Evaluate a run that has one.")
        yield run, folder


def _other_data(experiment: Experiment, overrides: Sequence[str]) -> Experiment:
    """Return the experiment with other data. What made the weights cannot be changed any more."""
    for text in overrides:
        if not text.startswith("data."):
            raise UserError(
                f"a trained model takes overrides of data alone, such as data.missing=skip; got '{text}'. "
                "Train again to change the rest."
            )
    return experiment.with_values(parse_overrides(overrides)) if overrides else experiment


def _run_with_model(name: str, run: Run, tracker: Tracker) -> Run:
    labels = run.data.tags
    if labels.get(tags.ROLE) == "check":
        raise UserError(
            f"'{name}' is a check; its models are measured already. Show it with: dmltune table {name}"
        )
    if winner := labels.get(tags.WINNER_MODEL, labels.get(tags.WINNER)):
        winning_run = tracker.find(winner)
        if winning_run is None:
            raise UserError(
                f"the winner of '{name}' was deleted from MLflow (run {winner}). "
                "Restore the run there, or evaluate another one by its id."
            )
        return winning_run
    if labels.get(tags.NUMBER) == tags.PARENT and tags.MODEL not in labels:
        raise UserError(
            f"'{name}' has no complete trial yet. Continue it with the same command, then evaluate."
        )
    return run


def _untrained(name: str, tracker: Tracker, overrides: Sequence[str]) -> EvaluatedModel:
    """Return the embedder of a space in which nothing learns, with the weights it comes with."""
    spaces = places.named_files(places.SPACES)
    if name not in spaces and not places.is_path(name):
        raise tracker.unknown("search, training or run", name, spaces)
    experiment = load_experiment(name, overrides).reference_experiment()
    torch.manual_seed(experiment.seed)
    refs = references.load(experiment.references.name, 2, 2, **experiment.references.parameters)
    embedder = build_embedder(experiment, refs.normalise)
    if learns(embedder):
        raise UserError(
            f"no search, training or run '{name}' in this store, and in the space of that name something"
            f" has to learn first; dmltune train {name}"
        )
    return EvaluatedModel(Path(name).stem if places.is_path(name) else name, experiment, embedder)
