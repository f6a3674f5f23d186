"""The data and settings of the figures about the spherical feature transform."""

from __future__ import annotations

from dataclasses import replace

from dmltune.reproduce.figures import _data
from dmltune.reproduce.study import DataChoice

SFT = ("transform=sft",)  # rotation, balanced, weight 0.2: the text's
BASELINE = ("transform=identity",)
_BATCH = ("batch.size=60", "batch.samples_per_class=3", "loss=ranked_list")  # 20 classes × 3 images
CARS = DataChoice(
    "cars-sft",
    "Cars196 with the ranked list loss and BN-Inception, as in the text",
    ("backbone={name: bn_inception, weights: imagenet}", "loss=ranked_list"),
    stand_in=False,
)
CUB = DataChoice(
    "cub-sft",
    "CUB-200-2011 with the ranked list loss and BN-Inception, as in the text",
    ("backbone={name: bn_inception, weights: imagenet}", "loss=ranked_list"),
    stand_in=False,
)
BIRDS = replace(_data.BIRDS, overrides=(*_data.BIRDS.overrides, *_BATCH))
GLYPHS = replace(_data.GLYPHS, overrides=(*_data.GLYPHS.overrides, *_BATCH))
