"""A classifier of many head and few tail images, trained and tested on the same classes (SFT, Table 5).

The splits of an experiment part the classes, so this training is no cell: it runs in this process, with a
checkpoint at every validation that the same command continues from.

N images, D dimensions, C classes.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from dmltune.core import checkpoint
from dmltune.core.classification import head_and_tail_accuracy
from dmltune.core.fit import fit
from dmltune.core.run import Run
from dmltune.core.threads import torch_threads
from dmltune.data.feed import ImageFeed
from dmltune.data.images import ImageSet
from dmltune.data.splits import Split
from dmltune.data.unbalanced import UnbalancedSplit, unbalanced_split
from dmltune.errors import parse_json
from dmltune.experiment import Experiment
from dmltune.reproduce.request import FigureRequest
from dmltune.train.build import build_objective, build_optimizer, options_of, schedule_of, training_images
from dmltune.train.inference import embed
from dmltune.train.ray_session import threads_of, usable_cores

MONITORED = 512  # test images that a validation during training looks at; nothing is chosen on them
RESULT = "result.json"


@dataclass(frozen=True)
class Sizes:
    """Training images of a head and of a tail class, and the fewest images of a class that takes part."""

    head: int
    tail: int
    fewest: int


def accuracies(request: FigureRequest, key: str, experiment: Experiment, sizes: Sizes) -> dict[str, float]:
    """Return the accuracy on head, tail and all test images after training; stored under this key."""
    folder = request.folder / "trials" / key
    if (folder / RESULT).is_file():
        stored: dict[str, float] = parse_json((folder / RESULT).read_text(encoding="utf-8"))
        return stored
    images = training_images(experiment, request.locations.absolute_root)
    chosen = unbalanced_split(
        images.labels_N,
        head_each=sizes.head,
        tail_each=sizes.tail,
        fewest=sizes.fewest,
        seed=experiment.seed,
    )
    with torch_threads(threads_of(usable_cores())):
        run = _trained(request, key, experiment, images, chosen, folder / "last")
        result = _tested(run, experiment, images, chosen)
    checkpoint.replace_file(folder / RESULT, json.dumps(result, indent=1).encode())
    shutil.rmtree(folder / "last", ignore_errors=True)
    return result


def _trained(
    request: FigureRequest,
    key: str,
    experiment: Experiment,
    images: ImageSet,
    chosen: UnbalancedSplit,
    last: Path,
) -> Run:
    """Train from the checkpoint, or from the start; return the run with its last weights."""
    torch.manual_seed(experiment.seed)
    feed = ImageFeed(
        images,
        Split(chosen.images.train_N, chosen.images.validation_N[:MONITORED]),
        size=experiment.data.size,
        batch_size=experiment.batch.size,
        samples_per_class=experiment.batch.samples_per_class,
        augment=experiment.data.augment,
        seed=experiment.seed,
    )
    objective = build_objective(experiment, feed)
    objective.to("cuda" if torch.cuda.is_available() else "cpu")
    schedule = replace(schedule_of(experiment), patience=None)
    run = Run(objective, build_optimizer(experiment, objective), feed, schedule, options_of(experiment))
    try:
        if (last / checkpoint.CHECKPOINT).is_file():
            tensors, meta = checkpoint.load(last)
            with checkpoint.reading(last / checkpoint.CHECKPOINT):
                run.restore(tensors, meta["run"])
        for progress in fit(run):
            tensors, meta = run.state()
            checkpoint.save(last, tensors, {"run": meta})
            request.log(f"{key}: step {progress.step}/{progress.max_steps}")
    finally:
        feed.close()
    live = {name.removeprefix("model."): each for name, each in tensors.items() if name.startswith("model.")}
    objective.load_state_dict(live)  # `fit` ends with the best ones, which were chosen on test images
    return run


def _tested(run: Run, experiment: Experiment, images: ImageSet, chosen: UnbalancedSplit) -> dict[str, float]:
    """Return the accuracy of the proxies of the loss on the images that were not drawn for training."""
    test_N = chosen.images.validation_N
    labels_N = torch.from_numpy(np.unique(images.labels_N[test_N], return_inverse=True)[1])
    emb_ND = embed(run.objective.embedder, images, test_N, experiment.data.size)
    proxies_CD = run.objective.loss.get_parameter("proxies").detach().cpu()
    return head_and_tail_accuracy(emb_ND, labels_N, proxies_CD, torch.from_numpy(chosen.tail_C))
