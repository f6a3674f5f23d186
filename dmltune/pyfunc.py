"""What MLflow loads to serve a stored embedder: images in, embeddings out (`tracking/flavor.py` names it).

The column `image` holds image files, as bytes or as base64 text, or arrays (H, W, 3): whole numbers from 0 to
255, or fractions from 0 to 1. Each becomes the square that the embedder was validated on. Legend: N images, D
dimensions, H×W pixels.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dmltune.data.decoding import SERVED_PIXELS
from dmltune.errors import UserError
from dmltune.serving.pictures import Pictures
from dmltune.train.inference import embed, read_embedder


def _load_pyfunc(path: str) -> ServedEmbedder:
    """Return the model in a folder with model.safetensors: the name and the argument are MLflow's."""
    return ServedEmbedder(Path(path))


class ServedEmbedder:
    """A stored embedder behind MLflow's `predict`."""

    def __init__(self, folder: Path) -> None:
        self.embedder, _, self.about = read_embedder(folder)

    def predict(self, images: Any, params: Any = None) -> NDArray[np.float32]:
        """Return the embeddings (N, D) of the column `image` of a table, or of a list of images."""
        items = list(images["image"]) if hasattr(images, "columns") else list(images)
        if not items:
            return np.zeros((0, self.about.embedding_size), dtype=np.float32)
        pictures = Pictures(
            [_picture(item, place) for place, item in enumerate(items, 1)],
            self.about.exif_rotation,
            SERVED_PIXELS,
        )
        image_set = pictures.image_set(self.about.crop_margin)
        with torch.inference_mode():
            points = embed(self.embedder, image_set, range(len(items)), self.about.image_size)
        points_ND: NDArray[np.float32] = points.numpy()
        return points_ND


def _picture(item: Any, place: int) -> Any:
    """Return the bytes of a file, or an array of bytes or fractions: JSON has whole numbers only."""
    if isinstance(item, bytes | bytearray):
        return item
    try:
        if isinstance(item, str):
            return base64.b64decode(item, validate=True)
        array = np.asarray(item)
    except (binascii.Error, ValueError) as error:
        raise UserError(
            f"image {place} cannot be read ({error}). Send an image file as base64 text, or an array."
        ) from None
    if np.issubdtype(array.dtype, np.integer) and array.size and array.min() >= 0 and array.max() <= 255:
        return array.astype(np.uint8)
    return array
