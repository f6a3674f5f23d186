"""`timm/<name>`: the feature map of any convolutional model of timm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmltune.core.backbones import Backbone
from dmltune.errors import UserError, nearest

_PROBE = 96


class FromTimm(Backbone):
    net: Any

    def __init__(self, *, model: str) -> None:
        super().__init__()
        try:
            import timm
        except ImportError:
            raise UserError(f"backbone timm/{model} needs timm; pip install 'dmltune[timm]'") from None
        if not timm.is_model(model):
            raise UserError(f"timm has no model '{model}'{nearest(model, timm.list_models())}")
        self.name = model
        self.net = timm.create_model(model, num_classes=0, global_pool="")
        config = self.net.default_cfg
        self.mean, self.std, self.channels = (
            tuple(config["mean"]),
            tuple(config["std"]),
            self.net.num_features,
        )
        probed = None
        try:
            with torch.no_grad():
                probed = self.eval()(torch.zeros(1, 3, _PROBE, _PROBE))
        except (AssertionError, RuntimeError):
            pass  # a model of one fixed input size: not a convolutional one
        self.train()
        if probed is None or probed.dim() != 4 or probed.shape[1] != self.channels:
            raise UserError(f"timm/{model} gives no feature map (B, C, h, w); use a convolutional model")

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features: Tensor = self.net.forward_features(images_B3HW)
        return features

    def load_named_weights(self, weights: str) -> None:
        if weights != "imagenet":
            super().load_named_weights(weights)
        import timm

        try:
            pretrained = timm.create_model(self.name, pretrained=True, num_classes=0, global_pool="")
        except Exception as problem:  # the hub raises whatever its HTTP library does
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise UserError(
                f"weights imagenet of timm/{self.name} cannot be fetched: {reason}; give a path"
            ) from None
        self.net.load_state_dict(pretrained.state_dict())
