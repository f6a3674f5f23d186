"""Crops are those of Pillow, to one grey level, and the boxes of `ms` are those of RandomResizedCrop."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import RandomResizedCrop

from dmltune.data import augment
from dmltune.data.augment import crop_flip, evaluation_pixels, ms, ms_boxes
from dmltune.data.images import PHOTO_MARGIN, Pixels, from_pil, to_pil

NUMBERS = augment.load("ms").numbers


def noise(height: int, width: int, channels: int = 3) -> Pixels:
    """Hard edges everywhere: the worst case for two ways to round."""
    rng = np.random.default_rng((height, width))
    return (255 * rng.integers(0, 2, (height, width, channels))).astype(np.uint8)


def by_pillow(image_HWC: Pixels, box: tuple[int, int, int, int], size: int) -> Pixels:
    """Cut out and scaled, antialiased; `box` is top, left, height, width."""
    top, left, height, width = box
    crop = to_pil(image_HWC).crop((left, top, left + width, top + height))
    return from_pil(crop.resize((size, size), Image.Resampling.BILINEAR))


def ms_box_by_hand(height: int, width: int, u: list[float]) -> tuple[int, int, int, int]:
    """RandomResizedCrop's way, one try after the other."""
    for area_u, aspect_u in zip(u[:10], u[10:20], strict=True):
        area = height * width * (0.16 + 0.84 * area_u)
        aspect = math.exp(math.log(3 / 4) + (math.log(4 / 3) - math.log(3 / 4)) * aspect_u)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return math.floor(u[21] * (height - h + 1)), math.floor(u[20] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * 4 / 3)
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("channels", [1, 3])
@given(height=st.integers(20, 90), width=st.integers(20, 90), size=st.integers(8, 80), seed=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_a_crop_is_pillows_to_one_grey_level(
    channels: int, height: int, width: int, size: int, seed: int
) -> None:
    image, u_1K = noise(height, width, channels), np.random.default_rng(seed).random((1, NUMBERS))
    expected = by_pillow(image, ms_box_by_hand(height, width, u_1K[0].tolist()), size)
    if u_1K[0, -1] < 0.5:
        expected = expected[:, ::-1]
    got = ms([image], size, PHOTO_MARGIN, u_1K)[0]
    assert np.abs(got.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(("height", "width"), [(40, 40), (30, 90), (90, 30), (256, 341)])
def test_boxes_of_a_batch_are_those_found_one_try_after_the_other(height: int, width: int) -> None:
    u_BK = np.random.default_rng(height).random((200, NUMBERS))
    u_BK[:20, :10] = 1 - 1e-9  # nothing fits a whole long image: the fallback
    boxes_B4 = ms_boxes(np.full(200, height), np.full(200, width), u_BK)
    assert boxes_B4.tolist() == [list(ms_box_by_hand(height, width, u_K.tolist())) for u_K in u_BK]


def test_boxes_are_spread_as_those_of_torchvision() -> None:
    count, height, width = 4000, 160, 213
    mine_B4 = ms_boxes(
        np.full(count, height), np.full(count, width), np.random.default_rng(0).random((count, NUMBERS))
    )
    frame = torch.zeros(1, height, width)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs_B4 = np.array(
            [RandomResizedCrop.get_params(frame, [0.16, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
        )
    for quantity in range(4):
        mine, theirs = (np.quantile(b[:, quantity], [0.1, 0.3, 0.5, 0.7, 0.9]) for b in (mine_B4, theirs_B4))
        assert np.abs(mine - theirs).max() <= 6


def test_the_thesis_crop_is_cut_at_whole_pixels_and_scaled_as_pillow_does() -> None:
    image = noise(90, 120)
    # side (40 + 216 · 0.25) / 256 of 90 = 33.05, aspect 1, a third from the left, in the middle
    crop = crop_flip([image], 24, PHOTO_MARGIN, np.array([[0.25, 0.5, 1 / 3, 0.5, 0.9]]))[0]
    expected = by_pillow(image, (29, 29, 33, 33), 24)
    assert np.abs(crop.astype(int) - expected).max() <= 1


def test_read_only_pixels_are_cropped_and_stay_as_they_are() -> None:
    image = noise(40, 50)
    image.setflags(write=False)
    before = image.copy()
    u_BK = np.random.default_rng(0).random((3, NUMBERS))
    crops = ms([image] * 3, 16, PHOTO_MARGIN, u_BK)
    crops[:] = 0  # the result is the caller's own
    assert np.array_equal(image, before)


def test_a_centre_that_has_its_size_is_cut_out_without_resampling() -> None:
    even = noise(228, 302)  # 228 to 226, and 38 from the left
    assert np.array_equal(evaluation_pixels([even], 226, 228 / 226)[0], even[1:227, 38:264])
    odd = noise(256, 301)  # 227 of 301 start at 37, 227 of 256 at 14.5: not half a pixel is resampled
    assert np.array_equal(evaluation_pixels([odd], 227, PHOTO_MARGIN)[0], odd[14:241, 37:264])
