"""The points of images under a trained or untrained embedder, for figures about the shape of an embedding."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dmltune.core.embedder import Embedder
from dmltune.core.threads import torch_threads
from dmltune.data.images import ImageSet, Ints
from dmltune.experiment import Experiment
from dmltune.reproduce.request import FigureRequest
from dmltune.train.build import build_embedder, training_images, validation_split
from dmltune.train.inference import embed
from dmltune.train.ray_session import threads_of, usable_cores

Part = Literal["train", "validation"]


def images_of(request: FigureRequest, experiment: Experiment, part: Part) -> tuple[ImageSet, Ints]:
    """Return the training half, and the places of the images of this part of it."""
    images = training_images(experiment, request.locations.absolute_root)
    chosen = validation_split(experiment, images)
    return images, chosen.train_N if part == "train" else chosen.validation_N


def points_of(
    request: FigureRequest, experiment: Experiment, embedder: Embedder, part: Part = "validation"
) -> tuple[Tensor, Tensor]:
    """Return (emb_ND, labels_N) of the images as evaluation sees them."""
    images, places_N = images_of(request, experiment, part)
    with torch_threads(threads_of(usable_cores())):
        emb_ND = embed(embedder, images, places_N, experiment.data.size)
    return emb_ND, torch.from_numpy(images.labels_N[places_N])


def untrained(experiment: Experiment) -> Embedder:
    """Return the embedder that a training of this experiment begins with."""
    torch.manual_seed(experiment.seed)
    return build_embedder(experiment, "l2")
