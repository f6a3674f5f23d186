"""Backbone weights from a short training of another space: `backbone.weights: space:NAME`.

The training happens once on a machine, before the trials, and its best backbone is an entry of the cache.
All trials, seeds and folds start from the same weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from dmltune.core import backbones, collectives
from dmltune.core.fit import fit
from dmltune.core.run import Run
from dmltune.core.threads import torch_threads
from dmltune.data.cache import cache_folder, cached
from dmltune.data.feed import ImageFeed
from dmltune.errors import NOTE, UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.train.ray_session import threads_of, usable_cores

logger = logging.getLogger(__name__)

PREFIX = backbones.FROM_SPACE
FILE = "backbone.safetensors"
VERSION = 1
EVERY_S = 10.0  # between two lines about the steps


def with_weights(experiment: Experiment, data_root: str | None) -> Experiment:
    """Return the experiment with the file of the weights in place of `space:NAME`."""
    weights = experiment.backbone.weights
    if not weights.startswith(PREFIX):
        return experiment
    source = source_of(experiment)
    file = trained_backbone(source, weights.removeprefix(PREFIX), data_root)
    chosen = experiment.backbone.model_copy(update={"weights": str(file)})
    return experiment.model_copy(update={"backbone": chosen})


def without_training(experiment: Experiment) -> Experiment:
    """Return the experiment with random weights in place of `space:NAME`, which is validated."""
    if not experiment.backbone.weights.startswith(PREFIX):
        return experiment
    source_of(experiment)
    chosen = experiment.backbone.model_copy(update={"weights": "none"})
    return experiment.model_copy(update={"backbone": chosen})


def source_of(experiment: Experiment) -> Experiment:
    """Return the training that the weights come from, with the backbone of this experiment."""
    name = experiment.backbone.weights.removeprefix(PREFIX)
    source = load_experiment(name, [f"backbone.name={experiment.backbone.name}"]).reference_experiment()
    if source.backbone.weights.startswith(PREFIX):
        raise UserError(
            f"backbone.weights {PREFIX}{name}: the space {name} takes its weights from a space itself. "
            "Name a space with other weights."
        )
    if source.objective.protocol == "conventional":
        raise UserError(
            f"backbone.weights {PREFIX}{name}: this training is monitored on test classes. "
            "Name a space with another objective.protocol."
        )
    return source


def trained_backbone(source: Experiment, name: str, data_root: str | None) -> Path:
    """Return the weights file of this training, which runs here if no process has done it before."""
    entry = _entry(source, data_root)
    return cached(entry, lambda folder: _build(source, name, data_root, folder), _read)


def is_trained(source: Experiment, data_root: str | None) -> bool:
    """Return whether this training was done on this machine."""
    return (cache_folder() / _entry(source, data_root)).is_dir()


def _entry(source: Experiment, data_root: str | None) -> str:
    """Return the name of the weights in the cache."""
    from dmltune.train.build import training_images

    content = json.dumps([source.settings(), training_images(source, data_root).fingerprint], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:24]
    return f"weights-{source.backbone.name}-{digest}-v{VERSION}"


def _build(source: Experiment, name: str, data_root: str | None, folder: Path) -> None:
    what = f"weights for the backbone: training the space {name} for {source.max_steps} steps"
    logger.log(NOTE, "%s, once on this machine", what)
    if collectives.world_size() == 1:
        _train(source, data_root, folder)
        return
    # A rank of a group on another machine: the training must not exchange anything with the other ranks.
    process = multiprocessing.get_context("spawn").Process(target=_train, args=(source, data_root, folder))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise UserError(f"{what} failed on this machine; dmltune train {name} shows why")


def _train(source: Experiment, data_root: str | None, folder: Path) -> None:
    from dmltune.train.build import build_run

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch_threads(threads_of(usable_cores())):
        run = build_run(source, data_root, device)
        try:
            for progress in fit(run, should_stop=_never_but_log(run)):
                logger.info("step %d of %d: %.3f", progress.step, progress.max_steps, progress.score)
        finally:
            if isinstance(run.feed, ImageFeed):
                run.feed.close()
    tensors = run.objective.embedder.backbone.state_dict()
    plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    safetensors.torch.save_file(plain, folder / FILE)


def _never_but_log(run: Run) -> Callable[[], bool]:
    """Return a `should_stop` that is always False, and logs the step from time to time."""
    logged = time.monotonic()

    def should_stop() -> bool:
        nonlocal logged
        if time.monotonic() - logged >= EVERY_S:
            logged = time.monotonic()
            logger.log(NOTE, "weights for the backbone: step %d of %d", run.step, run.schedule.max_steps)
        return False

    return should_stop


def _read(folder: Path) -> Path:
    try:
        with safetensors.safe_open(folder / FILE, framework="pt"):
            return folder / FILE
    except safetensors.SafetensorError as error:
        raise ValueError(f"{folder / FILE}: {error}") from None
