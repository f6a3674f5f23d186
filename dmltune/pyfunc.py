"""What MLflow loads to serve a stored embedder: images in, embeddings out (`tracking/flavor.py` names it).

The column `image` holds image files, as bytes or as base64 text, or arrays (H, W, 3): whole numbers from 0 to
255, or fractions from 0 to 1. Each becomes the square that the embedder was validated on. Legend: N images, D
dimensions, H×W pixels.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dmltune.data.catalog._files import Source
from dmltune.data.catalog.own import OwnSource
from dmltune.data.decoding import UnreadableImageError, opened
from dmltune.data.images import ImageSet, Ints, Pixels, from_pil
from dmltune.errors import UserError
from dmltune.train.inference import embed, read_embedder


def _load_pyfunc(path: str) -> ServedEmbedder:
    """Return the model in a folder with model.safetensors: the name and the argument are MLflow's."""
    return ServedEmbedder(Path(path))


class ServedEmbedder:
    """A stored embedder behind MLflow's `predict`."""

    def __init__(self, folder: Path) -> None:
        self.embedder, _, self.about = read_embedder(folder)
        self._converted = (OwnSource if self.about.exif_rotation else Source).converted

    def predict(self, images: Any, params: Any = None) -> NDArray[np.float32]:
        """Return the embeddings (N, D) of the column `image` of a table, or of a list of images."""
        items = list(images["image"]) if hasattr(images, "columns") else list(images)

        def read(indices: Ints, side: int | None) -> list[Pixels]:
            return [self._pixels(items[index], int(index), side) for index in indices]

        labels_N = np.zeros(len(items), dtype=np.int64)
        margin, size = self.about.crop_margin, self.about.image_size
        imageset = ImageSet("images", "test", labels_N, ("",), "", read, margin=margin)
        if not items:
            return np.zeros((0, self.about.embedding_size), dtype=np.float32)
        with torch.inference_mode():
            points_ND: NDArray[np.float32] = embed(self.embedder, imageset, range(len(items)), size).numpy()
        return points_ND

    def _pixels(self, item: Any, index: int, side: int | None) -> Pixels:
        if not isinstance(item, str | bytes | bytearray):
            return _array(item, index)
        try:
            content = base64.b64decode(item, validate=True) if isinstance(item, str) else bytes(item)
            with opened(io.BytesIO(content)) as image:
                if side is not None:
                    image.draft("RGB", (side, side))
                return from_pil(self._converted(image))
        except (binascii.Error, UnreadableImageError) as error:
            raise UserError(
                f"image {index} cannot be read ({error}); send a JPEG or PNG file as base64 text."
            ) from None


def _array(item: Sequence[Any], index: int) -> Pixels:
    try:
        pixels_HWC = np.asarray(item)
    except ValueError:
        pixels_HWC = np.zeros(0)
    fits = (
        pixels_HWC.ndim == 3 and pixels_HWC.shape[2] in (1, 3) and pixels_HWC.size and pixels_HWC.min() >= 0
    )
    if fits and np.issubdtype(pixels_HWC.dtype, np.integer) and pixels_HWC.max() <= 255:
        whole: Pixels = pixels_HWC.astype(np.uint8)
        return whole
    if fits and np.issubdtype(pixels_HWC.dtype, np.floating) and pixels_HWC.max() <= 1:
        rounded: Pixels = np.rint(pixels_HWC * 255).astype(np.uint8)
        return rounded
    raise UserError(
        f"image {index} must be an array (H, W, 3) of whole numbers from 0 to 255 or of fractions; got the "
        f"shape {pixels_HWC.shape} and {pixels_HWC.dtype}."
    )
