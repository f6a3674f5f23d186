"""EfficientNet-Lite0."""

from __future__ import annotations

from dmltune.core.backbones._efficientnet_lite import EfficientnetLite


class EfficientnetLite0(EfficientnetLite):
    """1,280 channels at a stride of 32; weights packaged | imagenet (timm's)."""

    number = 0
    digits = "57934424"
