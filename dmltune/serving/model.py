"""`dmltune.load`: a trained model that embeds images.

N images, D dimensions, S pixels a side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmltune.core.checkpoint import ModelDescription
from dmltune.core.embedder import Embedder
from dmltune.data.feed import evaluation_batches
from dmltune.errors import UserError
from dmltune.serving.pictures import Picture, Pictures, as_list
from dmltune.serving.stored import model_folder
from dmltune.store import Store
from dmltune.train.inference import embed, read_embedder

Vectors = NDArray[np.float32]
Progress = Callable[[int, int], None]  # images embedded, of how many
_INPUT = ("image_size", "crop_margin", "resize", "exif_rotation", "mean", "std", "normalise")


def load(name: str | Path, *, store: Store | str | Path | None = None, device: str = "") -> LoadedModel:
    """Return the model of a search's winner, a training or a run, or the one in a folder.

    `device` is torch's name of one, by default a GPU where there is one.
    """
    chosen = store if isinstance(store, Store) or store is None else Store.to_read(store)
    with model_folder(name, chosen) as folder:
        embedder, _, description = read_embedder(folder)
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        embedder.to(place).eval()
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device must be one that torch has here, such as cpu; got '{device}'") from error
    return LoadedModel(str(name), embedder, description, place)


@dataclass(frozen=True)
class LoadedModel:
    """An embedder with all that its images need. `description` says how they are prepared."""

    name: str
    embedder: Embedder
    description: ModelDescription
    device: torch.device

    @property
    def dim(self) -> int:
        return self.description.embedding_size

    def embed(
        self, images: Picture | Iterable[Picture], progress: Progress = lambda done, total: None
    ) -> Vectors:
        """Return the embeddings of paths, Pillow images, arrays or bytes of image files, (N, D).

        They are those of `dmltune.evaluate`: same preparation, same batches. A picture that cannot be read
        is a UserError.
        """
        return self.embed_pictures(self.pictures(images), progress)

    def pictures(self, images: Picture | Iterable[Picture], **options: Any) -> Pictures:
        """Return the images ready to be read; `options` are those of Pictures."""
        return Pictures(as_list(images), self.description.exif_rotation, **options)

    def embed_pictures(self, pictures: Pictures, progress: Progress = lambda done, total: None) -> Vectors:
        if not pictures.items:
            return np.zeros((0, self.dim), dtype=np.float32)
        about = self.description
        images = pictures.image_set(about.crop_margin)
        points_ND = embed(self.embedder, images, range(len(images)), about.image_size, self.device, progress)
        vectors: Vectors = points_ND.numpy()
        return vectors

    def preprocess(self, images: Picture | Iterable[Picture]) -> Tensor:
        """Return the images as the network takes them, uint8 (N, 3, S, S).

        The network standardises the pixels itself, with `description.mean` and `description.std`.
        """
        about, pictures = self.description, self.pictures(images)
        if not pictures.items:
            return torch.zeros((0, 3, about.image_size, about.image_size), dtype=torch.uint8)
        imageset = pictures.image_set(about.crop_margin)
        batches = evaluation_batches(imageset, range(len(imageset)), about.image_size)
        return torch.cat([batch for batch, _ in batches])

    def similarity(self, left: Any, right: Any) -> Vectors:
        """Return 1 − ‖x − y‖²/2 of every embedding x of `left` and y of `right`, (N, M).

        It ranks as evaluation does. For embeddings on the unit sphere it is the cosine.
        """
        return similarity(left, right)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that differ when the weights or the preparation of images do."""
        digest = hashlib.sha256(repr([getattr(self.description, key) for key in _INPUT]).encode())
        for name, tensor in sorted(self.embedder.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """Return what the model is, and how an image becomes its input."""
        about = self.description
        data, backbone = about.experiment.get("data", {}), about.experiment.get("backbone", {})
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "dim": self.dim,
            "backbone": backbone.get("name"),
            "pooling": about.experiment.get("pooling", {}).get("name"),
            "data": data.get("name"),
            "trained_on": about.data,
            "protocol": about.experiment.get("objective", {}).get("protocol"),
            "step": about.step,
            **preparation(about),
        }


def preparation(about: ModelDescription) -> dict[str, Any]:
    """Return how an image becomes an input, as JSON."""
    return {
        "image_size": about.image_size,
        "crop_margin": about.crop_margin,
        "resize": about.resize,
        "exif_rotation": about.exif_rotation,
        "mean": list(about.mean),
        "std": list(about.std),
        "normalise": about.normalise,
    }


def similarity(left: Any, right: Any) -> Vectors:
    """Return 1 − ‖x − y‖²/2 of all pairs, (N, M)."""
    x_ND, y_MD = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (left, right))
    if x_ND.ndim != 2 or y_MD.ndim != 2 or x_ND.shape[1] != y_MD.shape[1]:
        raise UserError(f"embeddings must be (N, D) and (M, D); got {x_ND.shape} and {y_MD.shape}")
    squared_NM = (x_ND**2).sum(1)[:, None] + (y_MD**2).sum(1)[None] - 2 * x_ND @ y_MD.T
    result: Vectors = (1 - squared_NM / 2).astype(np.float32)
    return result
