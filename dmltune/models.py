"""What is evaluated: the embedder of a run, or that of a space in which nothing learns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from dmltune.core import references
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError, nearest
from dmltune.experiment import Experiment, load_experiment
from dmltune.experiment.files import places
from dmltune.tracking import Run, Tracker
from dmltune.train.build import build_embedder, learns
from dmltune.train.inference import read_embedder


@dataclass(frozen=True)
class EvaluatedModel:
    """What is evaluated: the embedder of a run, or that of a space in which nothing learns."""

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


def trained_subject(name: str, found: Run, tracker: Tracker) -> EvaluatedModel:
    run = _run_with_model(name, found, tracker)
    run_id, tags = run.info.run_id, run.data.tags
    folder = tracker.model_folder(run_id)
    if folder is None:
        state = tags.get("dmltune.model", "it did not finish")
        raise UserError(f"run {run_id} has no model ({state}). Evaluate a run that has one.")
    embedder, experiment, about = read_embedder(folder)
    return EvaluatedModel(
        name=tags.get("dmltune.search", name),
        experiment=experiment,
        embedder=embedder,
        step=about.step,
        trained_on=about.data,
        trial=tags.get("dmltune.number", ""),
        run_id=run_id,
    )


def _run_with_model(name: str, found: Run, tracker: Tracker) -> Run:
    winner = found.data.tags.get("dmltune.winner")
    if winner:
        return tracker.client.get_run(winner)
    if found.data.tags.get("dmltune.number") == "parent" and "dmltune.model" not in found.data.tags:
        raise UserError(
            f"'{name}' has no complete trial yet. Continue it with the same command, then evaluate."
        )
    return found


def untrained_subject(name: str, tracker: Tracker) -> EvaluatedModel:
    """The embedder of a space in which nothing learns, with the weights it comes with."""
    spaces = places.named_files(places.SPACES)
    if name not in spaces and not places.is_path(name):
        known = tracker.names()
        hint = nearest(name, [*known, *spaces]) or (f"; there are {', '.join(known)}" if known else "")
        raise UserError(f"no search, training or run '{name}' in this store{hint}")
    experiment = load_experiment(name).reference_experiment()
    torch.manual_seed(experiment.seed)
    refs = references.load(experiment.references.name, 2, 2, **experiment.references.parameters)
    embedder = build_embedder(experiment, refs.normalise)
    if learns(embedder):
        raise UserError(
            f"no search, training or run '{name}' in this store, and in the space of that name something"
            f" has to learn first; dmltune train {name}"
        )
    return EvaluatedModel(Path(name).stem if places.is_path(name) else name, experiment, embedder)
