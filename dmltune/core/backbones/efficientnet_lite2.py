"""EfficientNet-Lite2."""

from __future__ import annotations

from dmltune.core.backbones._efficientnet_lite import EfficientnetLite


class EfficientnetLite2(EfficientnetLite):
    """1,280 channels at a stride of 32; weights packaged | imagenet (timm's)."""

    number = 2
    digits = "9656183e"
