"""`torchvision/<name>`: the feature map of any convolutional model of torchvision."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from dmltune.core.backbones import Backbone, _weights
from dmltune.errors import UserError, nearest

_PROBE = 96
_HEADS = ("avgpool", "fc", "classifier", "head", "heads")
_HALF_NORMALISED = ("googlenet", "inception_v3")


class FromTorchvision(Backbone):
    """What stands before the global pooling, under torchvision's names, so that its weights files fit."""

    def __init__(self, *, model: str) -> None:
        super().__init__()
        self.name = model
        for name, child in _net(model).named_children():
            if name in _HEADS:
                break
            if not name.lower().startswith("aux"):  # auxiliary classifiers hang beside the path
                self.add_module(name, child)
        if model in _HALF_NORMALISED:
            self.mean = self.std = (0.5, 0.5, 0.5)
        self.channels = self._channels()

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features = images_B3HW
        for module in self.children():
            features = module(features)
        # densenet applies its last activation between the features and the pooling
        return features.relu() if self.name.startswith("densenet") else features

    def load_named_weights(self, weights: str) -> None:
        if weights != "imagenet":
            super().load_named_weights(weights)
        import torchvision

        try:
            enum = torchvision.models.get_model_weights(self.name).DEFAULT
            tensors = enum.get_state_dict(progress=False, check_hash=True)
        except Exception as problem:  # no net, no room, no weights: torch.hub raises many kinds
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            source = f"torchvision/{self.name}"
            raise UserError(
                f"weights imagenet of {source} cannot be fetched: {reason}; give a path"
            ) from None
        _weights.load_tensors(self, tensors, f"imagenet of torchvision/{self.name}")

    def _channels(self) -> int:
        try:
            with torch.no_grad():
                features = self.eval()(torch.zeros(1, 3, _PROBE, _PROBE))
        except (AssertionError, RuntimeError, TypeError, ValueError):
            features = torch.zeros(0)
        self.train()
        if features.dim() != 4:
            raise UserError(
                f"torchvision/{self.name} gives no feature map (B, C, h, w); use a convolutional model"
            )
        return int(features.shape[1])


def _net(model: str) -> nn.Module:
    try:
        import torchvision
    except ImportError:
        raise UserError(f"backbone torchvision/{model} needs torchvision; pip install torchvision") from None
    known = torchvision.models.list_models(module=torchvision.models)
    if model not in known:
        raise UserError(f"torchvision has no image model '{model}'{nearest(model, known)}")
    options: dict[str, Any] = {"init_weights": True} if model in _HALF_NORMALISED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        net: nn.Module = torchvision.models.get_model(model, weights=None, **options)
    return net
