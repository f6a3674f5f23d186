"""EfficientNet-Lite1."""

from __future__ import annotations

from dmltune.core.backbones._efficientnet_lite import EfficientnetLite


class EfficientnetLite1(EfficientnetLite):
    """1,280 channels at a stride of 32; weights packaged | imagenet (timm's)."""

    number = 1
    digits = "77cc7160"
