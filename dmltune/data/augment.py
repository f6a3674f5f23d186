"""What training does to images, and what evaluation does instead. Every transform takes its random numbers as
an argument, so that the same (seed, step, position) gives the same image on any number of ranks and after a
resume.

Legend: B images, H×W pixels, C channels, K random numbers an image, S = size of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dmltune.data.images import Pixels, from_pil, to_pil
from dmltune.errors import UserError, nearest

Uniform = NDArray[np.float64]  # random numbers in [0, 1)

CROP_SIDES = (40 / 256, 1.0)  # of the shorter side (method-facts, "Images")
CROP_ASPECTS = (3 / 4, 4 / 3)
SHIFT = 0.1  # of the size, to either side: 3 pixels of 32
SHIFT_SCALES = (0.85, 1.15)


@dataclass(frozen=True)
class Augmentation:
    """`apply(images, size, margin, u_BK)`, and `numbers` = K, how many random numbers it wants for an
    image."""

    numbers: int
    apply: Callable[[Sequence[Pixels], int, float, Uniform], Pixels]


def evaluation_pixels(images: Sequence[Pixels], size: int, margin: float) -> Pixels:
    """Shorter side to size·margin, then the centre size × size; in one resampling. (B, S, S, C)."""
    return np.stack([_centre(image_HWC, size, margin) for image_HWC in images])


def none(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Training sees what evaluation sees."""
    return evaluation_pixels(images, size, margin)


def shift(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Moved by up to a tenth and scaled by 0.85–1.15, not flipped: a mirrored character is another one.

    Bilinear interpolation is separable here: out = A_y · image · A_xᵀ with a hat function in every row of A.
    Outside the frame is black.
    """
    pixels_BSSC = evaluation_pixels(images, size, margin).astype(np.float32)
    scale_B1 = (SHIFT_SCALES[0] + (SHIFT_SCALES[1] - SHIFT_SCALES[0]) * u_BK[:, 0:1]).astype(np.float32)
    move_B2 = ((2 * u_BK[:, 1:3] - 1) * SHIFT * size).astype(np.float32)
    centred_S = np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)

    def hats_BSS(move_B1: NDArray[np.float32]) -> NDArray[np.float32]:
        source_BS = (centred_S[None] - move_B1) / scale_B1
        hats: NDArray[np.float32] = np.maximum(
            0, 1 - np.abs(source_BS[:, :, None] - centred_S[None, None, :])
        )
        return hats

    rows_BSS, columns_BSS = hats_BSS(move_B2[:, 0:1]), hats_BSS(move_B2[:, 1:2])
    moved_BCSS = rows_BSS[:, None] @ np.moveaxis(pixels_BSSC, 3, 1) @ columns_BSS[:, None].swapaxes(2, 3)
    moved: Pixels = np.moveaxis(np.rint(moved_BCSS).clip(0, 255).astype(np.uint8), 1, 3)
    return moved


def crop_flip(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """The thesis' crop: side 40–256 of a shorter side of 256, aspect 3/4–4/3, scaled to size, mirrored half
    of the time.

    The aspect is uniform in its logarithm (the text leaves it open); a crop wider or higher than the image is
    cut.
    """
    return np.stack(
        [_crop(image_HWC, size, *u_K) for image_HWC, u_K in zip(images, u_BK.tolist(), strict=True)]
    )


def flip(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """What evaluation sees, mirrored half of the time: for aligned faces."""
    pixels_BSSC = evaluation_pixels(images, size, margin)
    mirrored_B111 = (u_BK[:, 0] < 0.5).reshape(-1, 1, 1, 1)
    return np.where(mirrored_B111, pixels_BSSC[:, :, ::-1], pixels_BSSC)


_AUGMENTATIONS = {
    "none": Augmentation(0, none),
    "flip": Augmentation(1, flip),
    "shift": Augmentation(3, shift),
    "crop_flip": Augmentation(5, crop_flip),
}


def names() -> tuple[str, ...]:
    return tuple(_AUGMENTATIONS)


def load(name: str) -> Augmentation:
    if name not in _AUGMENTATIONS:
        raise UserError(f"no augmentation '{name}'{nearest(name, names()) or '; use ' + ', '.join(names())}")
    return _AUGMENTATIONS[name]


def to_tensor(pixels_BHWC: Pixels) -> Tensor:
    """(B, 3, H, W) uint8 with channels-last strides; grey is given three times."""
    if pixels_BHWC.shape[3] == 1:
        pixels_BHWC = np.repeat(pixels_BHWC, 3, axis=3)
    return torch.from_numpy(np.ascontiguousarray(pixels_BHWC)).permute(0, 3, 1, 2)


def _centre(image_HWC: Pixels, size: int, margin: float) -> Pixels:
    height, width = image_HWC.shape[:2]
    side = min(height, width) / margin
    if height == width == size and margin == 1:
        return image_HWC
    left, top = (width - side) / 2, (height - side) / 2
    return _scaled(image_HWC, size, (left, top, left + side, top + side))


def _crop(
    image_HWC: Pixels, size: int, u_side: float, u_aspect: float, u_x: float, u_y: float, u_flip: float
) -> Pixels:
    height, width = image_HWC.shape[:2]
    side = min(height, width) * (CROP_SIDES[0] + (CROP_SIDES[1] - CROP_SIDES[0]) * u_side)
    aspect = CROP_ASPECTS[0] * math.exp(u_aspect * math.log(CROP_ASPECTS[1] / CROP_ASPECTS[0]))
    crop_width, crop_height = min(width, side * math.sqrt(aspect)), min(height, side / math.sqrt(aspect))
    left, top = u_x * (width - crop_width), u_y * (height - crop_height)
    crop_SSC = _scaled(image_HWC, size, (left, top, left + crop_width, top + crop_height))
    return crop_SSC[:, ::-1] if u_flip < 0.5 else crop_SSC


def _scaled(image_HWC: Pixels, size: int, box: tuple[float, float, float, float]) -> Pixels:
    height, width = image_HWC.shape[:2]
    inside = (
        max(box[0], 0.0),
        max(box[1], 0.0),
        min(box[2], width),
        min(box[3], height),
    )  # rounding may step out
    return from_pil(to_pil(image_HWC).resize((size, size), Image.Resampling.BILINEAR, box=inside))
