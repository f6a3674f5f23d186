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
        *("max_steps=480", "validate_every=24", "presets.references.xbm={size: 800, start_step: 48}"),
        *("presets.references.ccp.patience=1", "presets.references.ccp.longest=4"),  # a short training
    ),
)
GLYPHS = DataChoice(
    "glyphs",
    "80 rendered characters train and 40 others validate, 16 pixels, ResNet-20 from random weights",
    (
        *("data.classes=120", "data.size=16", "batch.size=32", "max_steps=240", "validate_every=8"),
        # from random weights the term with proxies alone learns slowly (search_spaces/glyphs-ccp.yaml)
        "presets={references: {xbm: {size: 320, start_step: 24},"
        " ccp: {proxies: 4, pool_size: 6, patience: 1, longest: 5, batch_weight: 10.0}}}",
    ),
)
CCP_DATA = {"cub": CUB, "cars": CARS, "birds": BIRDS, "glyphs": GLYPHS}
