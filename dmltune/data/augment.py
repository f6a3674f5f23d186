"""Transforms of images for training and for evaluation.

Every transform takes its random numbers as an argument: the same (seed, step, position) gives the same image
on any number of ranks and after a resume.

A crop is cut out at whole pixels and scaled by an antialiased triangle filter, as in the published pipelines
(Pillow's `crop(box).resize(size, BILINEAR)`). torch does the same on uint8 with vector instructions, several
times faster; the two differ by at most one grey level.

Legend: B images, H×W pixels, C channels, K random numbers an image, S = size of the result, T = tries.
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
from torch.nn.functional import interpolate

from dmltune.data.images import Ints, Pixels, from_pil, to_pil
from dmltune.errors import UserError, nearest

Uniform = NDArray[np.float64]  # random numbers in [0, 1)

CROP_SIDES = (40 / 256, 1.0)  # of the shorter side (method-facts, "Images")
CROP_ASPECTS = (3 / 4, 4 / 3)
MS_AREAS = (0.16, 1.0)  # of the image
MS_TRIES = 10
SHIFT = 0.1  # of the size, to either side: 3 pixels of 32
SHIFT_SCALES = (0.85, 1.15)


@dataclass(frozen=True)
class Augmentation:
    """`apply(images, size, margin, u_BK)`, with `numbers` = K random numbers an image."""

    numbers: int
    apply: Callable[[Sequence[Pixels], int, float, Uniform], Pixels]


def evaluation_pixels(images: Sequence[Pixels], size: int, margin: float) -> Pixels:
    """Return the centres of images with a shorter side of size·margin, (B, S, S, C)."""
    return np.stack([_centre(image_HWC, size, margin) for image_HWC in images])


def none(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Return the images of evaluation."""
    return evaluation_pixels(images, size, margin)


def shift(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Move by up to a tenth and scale by 0.85–1.15, without a flip, for characters.

    Bilinear interpolation is separable here: out = A_y · image · A_xᵀ with a hat function in every row of A.
    Outside the frame is black.
    """
    pixels_BSSC = evaluation_pixels(images, size, margin).astype(np.float32)
    scale_B1 = (SHIFT_SCALES[0] + (SHIFT_SCALES[1] - SHIFT_SCALES[0]) * u_BK[:, 0:1]).astype(np.float32)
    move_B2 = ((2 * u_BK[:, 1:3] - 1) * SHIFT * size).astype(np.float32)
    centred_S = np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)

    def hats_BSS(move_B1: NDArray[np.float32]) -> NDArray[np.float32]:
        source_BS = (centred_S[None] - move_B1) / scale_B1
        hats: NDArray[np.float32] = np.maximum(0, 1 - np.abs(source_BS[:, :, None] - centred_S))
        return hats

    rows_BSS, columns_BSS = hats_BSS(move_B2[:, 0:1]), hats_BSS(move_B2[:, 1:2])
    moved_BCSS = rows_BSS[:, None] @ np.moveaxis(pixels_BSSC, 3, 1) @ columns_BSS[:, None].swapaxes(2, 3)
    moved: Pixels = np.moveaxis(np.rint(moved_BCSS).clip(0, 255).astype(np.uint8), 1, 3)
    return moved


def crop_flip(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Crop as in the thesis, and mirror half of the time.

    The side is 40–256 of a shorter side of 256, the aspect 3/4–4/3 and uniform in its logarithm (the text
    leaves it open). A crop wider or higher than the image is cut.
    """
    height_B, width_B = _sides(images)
    side_B = np.minimum(height_B, width_B) * _between(CROP_SIDES, u_BK[:, 0])
    root_B = np.sqrt(_aspects(u_BK[:, 1]))
    crop_height_B = np.clip(np.rint(side_B / root_B).astype(np.int64), 1, height_B)
    crop_width_B = np.clip(np.rint(side_B * root_B).astype(np.int64), 1, width_B)
    top_B = (u_BK[:, 3] * (height_B - crop_height_B + 1)).astype(np.int64)
    left_B = (u_BK[:, 2] * (width_B - crop_width_B + 1)).astype(np.int64)
    boxes_B4 = np.stack([top_B, left_B, crop_height_B, crop_width_B], axis=1)
    return _crops(images, boxes_B4, u_BK[:, 4] < 0.5, size)


def ms(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Crop as Multi-Similarity and SFT do, and mirror half of the time.

    The area is 16–100 %, the aspect 3/4–4/3. After ten crops that do not fit, the largest one in the middle
    with an allowed aspect is taken: torchvision's RandomResizedCrop. The authors scale the shorter side to
    256 before; the packed images have this side.
    """
    boxes_B4 = ms_boxes(*_sides(images), u_BK)
    return _crops(images, boxes_B4, u_BK[:, 2 * MS_TRIES + 2] < 0.5, size)


def ms_boxes(height_B: Ints, width_B: Ints, u_BK: Uniform) -> Ints:
    """Return top, left, height, width, (B, 4), from T areas, T aspects, left and top."""
    area_BT = (height_B * width_B)[:, None] * _between(MS_AREAS, u_BK[:, :MS_TRIES])
    aspect_BT = _aspects(u_BK[:, MS_TRIES : 2 * MS_TRIES])
    widths_BT = np.rint(np.sqrt(area_BT * aspect_BT)).astype(np.int64)
    heights_BT = np.rint(np.sqrt(area_BT / aspect_BT)).astype(np.int64)
    fits_BT = (
        (widths_BT > 0)
        & (widths_BT <= width_B[:, None])
        & (heights_BT > 0)
        & (heights_BT <= height_B[:, None])
    )
    each_B, first_B, any_B = np.arange(len(u_BK)), fits_BT.argmax(axis=1), fits_BT.any(axis=1)
    middle_width_B = np.minimum(width_B, np.rint(height_B * CROP_ASPECTS[1]).astype(np.int64))
    middle_height_B = np.minimum(height_B, np.rint(width_B / CROP_ASPECTS[0]).astype(np.int64))
    crop_width_B = np.where(any_B, widths_BT[each_B, first_B], middle_width_B)
    crop_height_B = np.where(any_B, heights_BT[each_B, first_B], middle_height_B)
    room_2B = np.stack([height_B - crop_height_B, width_B - crop_width_B])
    place_2B = (u_BK[:, [2 * MS_TRIES + 1, 2 * MS_TRIES]].T * (room_2B + 1)).astype(np.int64)
    top_B, left_B = np.where(any_B, place_2B, room_2B // 2)
    return np.stack([top_B, left_B, crop_height_B, crop_width_B], axis=1)


def flip(images: Sequence[Pixels], size: int, margin: float, u_BK: Uniform) -> Pixels:
    """Return the images of evaluation, mirrored half of the time: for aligned faces."""
    pixels_BSSC = evaluation_pixels(images, size, margin)
    mirrored_B111 = (u_BK[:, 0] < 0.5).reshape(-1, 1, 1, 1)
    return np.where(mirrored_B111, pixels_BSSC[:, :, ::-1], pixels_BSSC)


_AUGMENTATIONS = {
    "none": Augmentation(0, none),
    "flip": Augmentation(1, flip),
    "shift": Augmentation(3, shift),
    "crop_flip": Augmentation(5, crop_flip),
    "ms": Augmentation(2 * MS_TRIES + 3, ms),
}


def names() -> tuple[str, ...]:
    return tuple(_AUGMENTATIONS)


def load(name: str) -> Augmentation:
    if name not in _AUGMENTATIONS:
        raise UserError(f"no augmentation '{name}'{nearest(name, names()) or '; use ' + ', '.join(names())}")
    return _AUGMENTATIONS[name]


def to_tensor(pixels_BHWC: Pixels) -> Tensor:
    """Return (B, 3, H, W) uint8 with channels-last strides; a grey channel is repeated."""
    if pixels_BHWC.shape[3] == 1:
        pixels_BHWC = np.repeat(pixels_BHWC, 3, axis=3)
    return torch.from_numpy(np.ascontiguousarray(pixels_BHWC)).permute(0, 3, 1, 2)


def _centre(image_HWC: Pixels, size: int, margin: float) -> Pixels:
    """Return the square in the middle, scaled to size.

    A square that has the size already is cut out at whole pixels: resampling it by half a pixel, where an odd
    number of columns is left over, would blur it.
    """
    height, width = image_HWC.shape[:2]
    side = min(height, width) / margin
    left, top = (width - side) / 2, (height - side) / 2
    if abs(side - size) < 1e-6:
        left, top = int(left + 1e-6), int(top + 1e-6)
        return image_HWC[top : top + size, left : left + size]
    # rounding may exceed the image
    box = (max(left, 0.0), max(top, 0.0), min(left + side, width), min(top + side, height))
    return from_pil(to_pil(image_HWC).resize((size, size), Image.Resampling.BILINEAR, box=box))


def _crops(images: Sequence[Pixels], boxes_B4: Ints, mirrored_B: NDArray[np.bool_], size: int) -> Pixels:
    """Cut out a box (top, left, height, width) of every image, scale it, and mirror some."""
    crops_BCSS = torch.empty(
        (len(images), images[0].shape[2], size, size), dtype=torch.uint8, memory_format=torch.channels_last
    )
    crops = zip(images, boxes_B4.tolist(), mirrored_B.tolist(), strict=True)
    for position, (image_HWC, (top, left, height, width), mirrored) in enumerate(crops):
        # A copy of the crop: torch needs writable, contiguous memory. The strides of the batch dimension must
        # be channels last too, or torch rearranges the crop, at twice the cost.
        crop_HWC = image_HWC[top : top + height, left : left + width].copy()
        crop_1CHW = torch.from_numpy(crop_HWC).unsqueeze(0).permute(0, 3, 1, 2)
        crop_1CSS = interpolate(crop_1CHW, (size, size), mode="bilinear", antialias=True)
        crops_BCSS[position] = (crop_1CSS.flip(3) if mirrored else crop_1CSS)[0]
    pixels_BSSC: Pixels = crops_BCSS.permute(0, 2, 3, 1).numpy()
    return pixels_BSSC


def _sides(images: Sequence[Pixels]) -> tuple[Ints, Ints]:
    shapes_B2 = np.array([image_HWC.shape[:2] for image_HWC in images], dtype=np.int64).reshape(-1, 2)
    return shapes_B2[:, 0], shapes_B2[:, 1]


def _between(bounds: tuple[float, float], u: Uniform) -> Uniform:
    return bounds[0] + (bounds[1] - bounds[0]) * u


def _aspects(u: Uniform) -> Uniform:
    """Return aspects, width over height, uniform in the logarithm."""
    aspects: Uniform = CROP_ASPECTS[0] * np.exp(u * math.log(CROP_ASPECTS[1] / CROP_ASPECTS[0]))
    return aspects
