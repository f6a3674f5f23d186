"""The configuration that made a stored model, to train it anew: on the training half, or on every class."""

from __future__ import annotations

from pathlib import Path

from dmltune.core import checkpoint
from dmltune.data.splits import ALL_CLASSES
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.serving.stored import model_folder
from dmltune.store import Store


def recipe(
    name: str | Path, store: Store | None = None, all_classes: bool = False, steps: int | None = None
) -> Experiment:
    """Return the experiment of the model that `name` stands for.

    With `all_classes` every image of both halves trains, for `steps`, by default as many as the stored model
    had: no class is left to choose a step on.
    """
    with model_folder(name, store) as folder:
        _, about = checkpoint.load_model(folder)
    experiment = Experiment.from_dict(about.experiment)
    if not all_classes:
        return experiment
    steps = steps or about.step
    if steps == 0:
        raise UserError(
            f"the model of '{name}' is the untrained network (its best step is 0), so nothing is known about "
            "how long to train. Search again, or say it with max_steps=N."
        )
    return experiment.with_values(
        {
            "objective.protocol": ALL_CLASSES,
            "objective.folds": 1,
            "fold": 0,
            "max_steps": steps,
            "validate_every": min(experiment.validate_every, steps),
            "optimizer.warmup_new_layers": min(experiment.optimizer.warmup_new_layers, steps - 1),
        }
    )
