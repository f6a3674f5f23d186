from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dmltune.data import augment
from dmltune.data.augment import crop_flip, evaluation_pixels, flip, shift, to_tensor
from dmltune.data.images import PHOTO_MARGIN, Pixels, shrink
from dmltune.errors import UserError


def noise(height: int, width: int, channels: int = 3) -> Pixels:
    return np.random.default_rng(height * width).integers(0, 256, (height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize("name", augment.names())
@pytest.mark.parametrize("channels", [1, 3])
@given(height=st.integers(9, 50), width=st.integers(9, 50), seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_every_augmentation_gives_uint8_squares_of_the_size_asked_for(
    name: str, channels: int, height: int, width: int, seed: int
) -> None:
    augmentation = augment.load(name)
    u_BK = np.random.default_rng(seed).random((2, augmentation.numbers))
    images = [noise(height, width, channels), noise(width, height, channels)]
    pixels_BSSC = augmentation.apply(images, 16, PHOTO_MARGIN, u_BK)
    assert pixels_BSSC.shape == (2, 16, 16, channels)
    assert pixels_BSSC.dtype == np.uint8


def test_an_image_depends_on_its_own_random_numbers_only() -> None:
    for name in augment.names():
        augmentation = augment.load(name)
        images = [noise(30, 40), noise(41, 29), noise(33, 33), noise(64, 31)]
        u_BK = np.random.default_rng(0).random((4, augmentation.numbers))
        together = augmentation.apply(images, 24, PHOTO_MARGIN, u_BK)
        for position in range(4):
            only = slice(position, position + 1)
            assert np.array_equal(
                together[only], augmentation.apply(images[only], 24, PHOTO_MARGIN, u_BK[only])
            )


@pytest.mark.parametrize("extreme", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_a_crop_stays_inside_the_image_at_the_extremes_of_its_numbers(extreme: float) -> None:
    white = np.full((37, 61, 3), 255, np.uint8)  # anything from outside would be darker
    assert crop_flip([white], 20, PHOTO_MARGIN, np.full((1, 5), extreme)).min() == 255


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_crop_has_the_side_aspect_and_place_that_its_numbers_say(seed: int) -> None:
    # Every pixel tells where it is: red its column, green its row.
    image = np.zeros((200, 250, 3), np.uint8)
    image[:, :, 0], image[:, :, 1] = np.arange(250)[None], np.arange(200)[:, None]
    side, aspect, x, y, _ = u_K = np.random.default_rng(seed).random(5)
    u_K[4] = 0.9  # not mirrored
    crop = crop_flip([image], 100, PHOTO_MARGIN, u_K[None])[0].astype(float)
    width, height = ((crop[50, 90, 0] - crop[50, 10, 0]) / 0.8, (crop[90, 50, 1] - crop[10, 50, 1]) / 0.8)
    ratio = (3 / 4) * (16 / 9) ** aspect  # 3/4 … 4/3
    length = 200 * (40 + 216 * side) / 256
    expected = (min(250, length * ratio**0.5), min(200, length / ratio**0.5))
    assert (width, height) == pytest.approx(expected, abs=3)
    centre = (x * (250 - expected[0]) + expected[0] / 2, y * (200 - expected[1]) + expected[1] / 2)
    assert (crop[50, 50, 0], crop[50, 50, 1]) == pytest.approx(centre, abs=3)


def test_half_of_the_crops_are_mirrored_and_a_mirrored_crop_is_the_crop_mirrored() -> None:
    u_BK = np.random.default_rng(0).random((2, 5))
    u_BK[1] = u_BK[0]
    u_BK[:, 4] = 0.49, 0.51
    mirrored, plain = crop_flip([noise(40, 50)] * 2, 24, PHOTO_MARGIN, u_BK)
    assert np.array_equal(mirrored, plain[:, ::-1])
    assert not np.array_equal(mirrored, plain)


def test_a_flip_mirrors_by_its_number_and_changes_nothing_else() -> None:
    plain, mirrored = flip([noise(40, 50)] * 2, 24, PHOTO_MARGIN, np.array([[0.7], [0.2]]))
    assert np.array_equal(plain, evaluation_pixels([noise(40, 50)], 24, PHOTO_MARGIN)[0])
    assert np.array_equal(mirrored, plain[:, ::-1])


def test_the_crop_that_takes_everything_is_the_whole_square() -> None:
    # side 256 of 256 with aspect 1 (the middle of the logarithmic range), not mirrored
    image = noise(32, 32)
    u_BK = np.array([[np.nextafter(1.0, 0.0), 0.5, 0.0, 0.0, 0.9]])
    assert np.abs(crop_flip([image], 32, PHOTO_MARGIN, u_BK)[0].astype(int) - image).max() <= 1


def test_a_shift_in_the_middle_of_its_ranges_changes_nothing() -> None:
    image = noise(32, 32, 1)
    u_BK = np.array([[0.5, 0.5, 0.5]])  # scale 1, no movement
    assert np.array_equal(shift([image], 32, 1.0, u_BK)[0], image)


def test_a_shift_agrees_with_interpolation_by_python_loops() -> None:
    image = noise(16, 16, 1)
    u_BK = np.array([[0.9, 0.2, 0.7]])
    scale = 0.85 + 0.3 * 0.9
    down, right = (2 * 0.2 - 1) * 1.6, (2 * 0.7 - 1) * 1.6
    expected = np.zeros((16, 16))
    for y in range(16):
        for x in range(16):
            source_y, source_x = (y - 7.5 - down) / scale + 7.5, (x - 7.5 - right) / scale + 7.5
            for row in range(16):
                for column in range(16):
                    weight = max(0, 1 - abs(source_y - row)) * max(0, 1 - abs(source_x - column))
                    expected[y, x] += weight * image[row, column, 0]
    assert np.abs(shift([image], 16, 1.0, u_BK)[0, :, :, 0] - expected).max() <= 0.5 + 1e-3


def test_evaluation_takes_the_centre_227_of_256() -> None:
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8)[None, :, None], (256, 256, 3))
    centre = evaluation_pixels([ramp], 227, PHOTO_MARGIN)[0, 100, :, 0]
    assert np.abs(centre.astype(float) - (14.5 + np.arange(227))).max() <= 1


def test_evaluation_of_a_frame_that_matters_returns_it_as_it_is() -> None:
    image = noise(32, 32, 1)
    assert np.array_equal(evaluation_pixels([image], 32, 1.0)[0], image)


def test_tensors_have_three_channels_and_channels_last_strides() -> None:
    for channels in (1, 3):
        pixels_BHWC = np.stack([noise(8, 8, channels)] * 2)
        images_B3HW = to_tensor(pixels_BHWC)
        assert images_B3HW.shape == (2, 3, 8, 8)
        assert images_B3HW.dtype == torch.uint8
        assert images_B3HW.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(images_B3HW[:, 2].numpy(), pixels_BHWC[..., channels - 1])


def test_shrinking_keeps_the_shape_and_never_enlarges() -> None:
    assert shrink(noise(60, 90), 20).shape == (20, 30, 3)
    assert shrink(noise(90, 60, 1), 20).shape == (30, 20, 1)
    assert shrink(noise(15, 90), 20).shape == (15, 90, 3)


def test_an_unknown_augmentation_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no augmentation 'crop_flp'; did you mean 'crop_flip'\?"):
        augment.load("crop_flp")
