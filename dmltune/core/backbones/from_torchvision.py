"""`torchvision/<name>`: the feature map of any model of torchvision, convolutional or of patches."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from dmltune.core.backbones import Backbone, UnknownModelError, _maps, load_tensors
from dmltune.core.backbones._weights import WeightsSource
from dmltune.errors import UserError, nearest

_PROBE = 96
_HEADS = ("avgpool", "fc", "classifier", "head", "heads")
_HALF_NORMALISED = ("googlenet", "inception_v3")
_VERSIONS = {"imagenet": "DEFAULT", "imagenet_v1": "IMAGENET1K_V1", "imagenet_v2": "IMAGENET1K_V2"}
_OLD_DENSE = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")


class FromTorchvision(Backbone):
    """The model before its global pooling, under torchvision's names: its weights files fit.

    Of a ViT these are the patch tokens, without the class token. Its position embeddings are interpolated
    where an image has another number of patches, as timm does; pixels that fill no patch are not seen.
    """

    class_token: nn.Parameter

    def __init__(self, *, model: str) -> None:
        super().__init__()
        self.name = model
        net: Any = _net(model)
        self.is_vit = hasattr(net, "class_token")
        if self.is_vit:
            self.register_parameter("class_token", net.class_token)
        for name, child in net.named_children():
            if name in _HEADS:
                break
            if not name.lower().startswith("aux"):  # auxiliary classifiers hang beside the path
                self.add_module(name, child)
        if model in _HALF_NORMALISED:
            self.mean = self.std = (0.5, 0.5, 0.5)
        self.channels = self._channels()

    def forward(self, images_B3HW: Tensor) -> Tensor:
        if self.is_vit:
            return self._patches(images_B3HW)
        features = images_B3HW
        for module in self.children():
            features = module(features)
        # densenet applies its last activation between the features and the pooling
        return features.relu() if self.name.startswith("densenet") else features

    def _patches(self, images_B3HW: Tensor) -> Tensor:
        encoder: Any = self.encoder
        patches_BChw: Tensor = self.get_submodule("conv_proj")(images_B3HW)
        rows, columns = patches_BChw.shape[2:]
        class_B1C = self.class_token.expand(len(images_B3HW), -1, -1).to(patches_BChw.dtype)
        tokens_BTC = torch.cat([class_B1C, patches_BChw.flatten(2).mT], dim=1)
        tokens_BTC = tokens_BTC + _maps.resized_positions(encoder.pos_embedding, 1, rows, columns)
        encoded_BTC: Tensor = encoder.ln(encoder.layers(encoder.dropout(tokens_BTC)))
        return encoded_BTC[:, 1:].mT.reshape(patches_BChw.shape)

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load weights; the files of densenets have `norm.1` for today's `norm1`."""
        load_tensors(self, {_OLD_DENSE.sub(r"\1\2", name): tensors[name] for name in tensors}, source)

    @classmethod
    def weights_source(cls, weights: str, model: str) -> WeightsSource:
        versions = _library(model).models.get_model_weights(model).__members__
        version = _VERSIONS.get(weights)
        if version not in versions:  # DEFAULT, the newest, is another name of one of them
            return super().weights_source(weights, model)
        chosen = versions[version]
        return WeightsSource.of_url(chosen.url, round(1e6 * chosen.meta["_file_size"]))

    def _channels(self) -> int:
        try:
            features = self.eval()(torch.zeros(1, 3, _PROBE, _PROBE))
        except (AssertionError, RuntimeError, TypeError, ValueError):
            features = torch.zeros(0)
        self.train()
        if features.dim() != 4:
            raise UserError(f"torchvision/{self.name} gives no feature map (B, C, h, w); use another model")
        _maps.freeze_unreached(self, features)
        return int(features.shape[1])


def _library(model: str) -> Any:
    """Return torchvision, which has this model."""
    try:
        import torchvision
    except ImportError:
        raise UserError(f"backbone torchvision/{model} needs torchvision; pip install torchvision") from None
    known = torchvision.models.list_models(module=torchvision.models)
    if model not in known:
        raise UnknownModelError(f"torchvision has no image model '{model}'{nearest(model, known)}")
    return torchvision


def _net(model: str) -> nn.Module:
    torchvision = _library(model)
    options: dict[str, Any] = {"init_weights": True} if model in _HALF_NORMALISED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        net: nn.Module = torchvision.models.get_model(model, weights=None, **options)
    return net
