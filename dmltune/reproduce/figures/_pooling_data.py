"""The data and settings of the figures about generalized sum pooling (thesis §5.3)."""

from __future__ import annotations

from dmltune.reproduce.figures._data import BIRDS
from dmltune.reproduce.figures._sweep import C2, LOSSES, PNCA
from dmltune.reproduce.study import DataChoice

CUB = DataChoice("cub-gsp", "CUB-200-2011, BN-Inception at 227 pixels, as in the text", stand_in=False)
# from random weights all layers are new: none learns first, and proxies learn 10 times faster, not 100
PROXIES_FROM_RANDOM = (
    "presets.loss={proxy_nca:"
    " {temperature: 0.11, batch: {samples_per_class: 1}, optimizer: {proxy_factor: 10.0}}}"
)
COLLAGES = DataChoice(
    "collage",
    "collages of rendered characters: the class is a quarter of the picture; ResNet-20 from random weights",
    ("max_steps=480", "validate_every=60", PROXIES_FROM_RANDOM),
)
GLYPHS = DataChoice(
    "glyphs",
    "160 rendered characters train and 80 others validate, 32 pixels, ResNet-20 from random weights",
    ("data.classes=240", "batch.size=32", "max_steps=400", "validate_every=40", PROXIES_FROM_RANDOM),
)
DATA = {"cub": CUB, "birds": BIRDS, "collages": COLLAGES, "glyphs": GLYPHS}
EPSILON = {C2: 5.0, PNCA: 0.5}  # the text's choice for losses without and with proxies
AVERAGE = ("pooling=gap", "zero_shot.weight=0")


def gsp(
    loss: str, *, prototypes: int = 64, mu: float = 0.3, epsilon: float | None = None, zero_shot: float = 0.1
) -> tuple[str, ...]:
    """Return the overrides of GSP with the zero-shot loss; what is not given is as in the text."""
    epsilon = EPSILON[loss] if epsilon is None else epsilon
    parameters = f"pooling={{name: gsp, prototypes: {prototypes}, mu: {mu}, epsilon: {epsilon}}}"
    return (*LOSSES[loss], parameters, f"zero_shot.weight={zero_shot}")
