"""What has to be on this machine before a training can begin: data, weights, packages, room on the disk.

All that is missing is reported at once, a line each.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator

from dmltune.core import backbones
from dmltune.data.files import amount
from dmltune.data.packed import packing
from dmltune.errors import UserError, UserErrors
from dmltune.experiment import Experiment
from dmltune.resources import Locations
from dmltune.store import existing_folder
from dmltune.train.backbones_here import backbones_of
from dmltune.train.build import training_images
from dmltune.weights.fetching import obtain

logger = logging.getLogger(__name__)

FINE_TUNING = 1e-4  # learning rates up to this one are for pretrained weights
_COPIES = 9  # of the weights: model, best ones and two moments, twice while they are replaced, and best/
_FLOAT = 4  # bytes


class SetupError(UserErrors):
    """What is missing on this machine, a line each."""


def require_setup(experiment: Experiment, locations: Locations) -> None:
    """Fetch weights that are not here; raise a SetupError for all that is missing.

    A model that no library has is a mistake in the experiment: its UserError is raised alone.
    """
    if problems := setup_problems(experiment, locations):
        raise SetupError(problems)
    if warning := random_weights(experiment):
        logger.warning(warning)


def setup_problems(experiment: Experiment, locations: Locations) -> list[str]:
    problems: dict[str, None] = {}
    runs = [run for run in (experiment.reference_experiment(), experiment.baseline_experiment()) if run]
    for run in runs:
        try:
            packing(training_images(run, locations.absolute_root), run.data.size)
        except UserError as error:
            problems[str(error)] = None
    for name, weights in backbones_of(experiment):
        if weights.startswith("space:"):  # of a training on this machine
            continue
        try:
            obtain(name, weights, locations.absolute_root)
        except backbones.UnknownModelError:
            raise
        except UserError as error:
            problems[str(error)] = None
    for name in dict.fromkeys(run.backbone.name for run in runs):
        try:
            parameters = sum(weight.numel() for weight in backbones.load(name).parameters())
        except backbones.UnknownModelError:
            raise
        except UserError as error:  # a library is not installed
            problems[str(error)] = None
        else:
            problems |= dict.fromkeys(_disk_problems(parameters, locations))
    return list(problems)


def random_weights(experiment: Experiment) -> str:
    """Return a warning when a backbone for fine-tuning starts from random weights, or nothing."""
    run = experiment.reference_experiment()
    name, rate = run.backbone.name, run.optimizer.lr
    if run.backbone.weights != "none" or rate > FINE_TUNING:
        return ""
    try:
        backbones.weights_source(name, "imagenet")
    except UserError:  # there are none for it
        return ""
    return (
        f"{name} starts from random weights (backbone.weights none) at a learning rate for fine-tuning "
        f"(optimizer.lr {rate:g}): it hardly learns. Use backbone.weights=imagenet, or a rate of 1e-3."
    )


def _disk_problems(parameters: int, locations: Locations) -> Iterator[str]:
    needed = _COPIES * _FLOAT * parameters
    free = shutil.disk_usage(existing_folder(locations.store.root)).free
    if needed > free:
        yield (
            f"the checkpoints of one trial take {amount(needed)}, and the store {locations.store.root} has "
            f"{amount(free)} left; free some, or choose another --store"
        )
