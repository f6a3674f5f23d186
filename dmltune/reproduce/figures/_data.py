"""The data that several figures are made of: those of the print, and stand-ins of a size for a CPU."""

from __future__ import annotations

from dmltune.reproduce.study import DataChoice

CUB = DataChoice("cub", "CUB-200-2011, BN-Inception at 227 pixels, as in the text", stand_in=False)
CARS = DataChoice("cars", "Cars196, BN-Inception at 227 pixels, as in the text", stand_in=False)
BIRDS = DataChoice(
    "cub-lite",
    "CUB-200-2011 at 160 pixels, the last blocks of EfficientNet-Lite0 trained from stored maps",
    (
        *("data.size=160", "data.views=4", "backbone.frozen_until=blocks.5"),
        *("max_steps=480", "validate_every=24"),
    ),
)
GLYPHS = DataChoice(
    "glyphs",
    "160 rendered characters train and 80 others validate, 24 pixels, ResNet-20 from random weights",
    (
        *("data.classes=240", "data.size=24", "batch.size=32", "max_steps=400", "validate_every=20"),
        # from random weights the term with proxies alone learns slowly (search_spaces/glyphs-ccp.yaml)
        "presets={references: {ccp: {proxies: 4, pool_size: 6, patience: 3, batch_weight: 10.0}}}",
    ),
)
