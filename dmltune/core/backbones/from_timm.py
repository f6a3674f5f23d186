"""`timm/<name>`: the feature map of any model of timm that has one, convolutional or of patches."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dmltune.core.backbones import Backbone, UnknownModelError, _maps, load_tensors
from dmltune.core.backbones._weights import WeightsSource
from dmltune.errors import UserError, nearest

_PROBE = 96
_ANY_SIZE: tuple[dict[str, Any], ...] = ({"dynamic_img_size": True}, {"strict_img_size": False}, {})
"""Options for images of any size: ViTs interpolate their position embeddings."""
_NO_POOLING: tuple[dict[str, Any], ...] = ({"global_pool": ""}, {})


class FromTimm(Backbone):
    """A map that lies channels-last (Swin) is permuted; patch tokens (ViTs) become the map of patches.

    Class and register tokens are left out. Pixels at the right and at the bottom that fill no patch are not
    seen, as with any convolution of that stride.
    """

    net: Any
    layout = "map"  # "channels last", "tokens"

    def __init__(self, *, model: str) -> None:
        super().__init__()
        _library(model)
        self.name = model
        self.net = _created(model)
        config = self.net.default_cfg
        self.mean, self.std = tuple(config["mean"]), tuple(config["std"])
        self.channels = self.net.num_features
        has_class_token = getattr(self.net, "cls_token", None) is not None
        self.prefix: int = getattr(self.net, "num_prefix_tokens", int(has_class_token))
        self.patch = _patch_size(getattr(self.net, "patch_embed", None))
        self._probe(tuple(config["input_size"][1:]))

    def forward(self, images_B3HW: Tensor) -> Tensor:
        if self.patch != (1, 1):
            images_B3HW = _whole_patches(images_B3HW, *self.patch)
        return self._arranged(self.net.forward_features(images_B3HW), images_B3HW)

    def load_tensors(self, tensors: dict[str, Tensor], source: str) -> None:
        """Load weights; `fc_norm`, after an average of tokens, normalises the tokens here."""
        renamed = {name.replace("fc_norm.", "norm."): value for name, value in tensors.items()}
        load_tensors(self.net, renamed | tensors, source)

    def load_named_weights(self, weights: str, file: Path) -> None:
        """Load a file as timm does, which renames the tensors of some models."""
        timm = _library(self.name)
        try:
            whole = timm.create_model(self.name, pretrained=True, pretrained_cfg_overlay={"file": str(file)})
        except (KeyError, OSError, RuntimeError, ValueError, pickle.UnpicklingError) as problem:
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise UserError(f"weights {file} cannot be read as timm/{self.name}: {reason}") from None
        self.load_tensors(whole.state_dict(), str(file))

    @classmethod
    def weights_source(cls, weights: str, model: str) -> WeightsSource:
        if weights != "imagenet":
            return super().weights_source(weights, model)
        published = _library(model).get_pretrained_cfg(model)
        if published is None or not (published.url or published.hf_hub_id):
            raise UserError(f"timm has no pretrained weights for '{model}'; use none or another model")
        by_url = WeightsSource.of_url(published.url or "")
        if not published.hf_hub_id:
            return by_url
        hub_file = published.hf_hub_filename or "model.safetensors"
        local = f"{published.hf_hub_id.replace('/', '--')}--{hub_file}"
        return WeightsSource(local, hub=published.hf_hub_id, hub_file=hub_file)

    def _arranged(self, features: Tensor, images_B3HW: Tensor) -> Tensor:
        if self.layout == "tokens":
            return _maps.as_map(features[:, self.prefix :], *images_B3HW.shape[2:])
        return features.permute(0, 3, 1, 2) if self.layout == "channels last" else features

    def _probe(self, own_size: tuple[int, int]) -> None:
        """Find the layout of the map. Models of one fixed size are tried with that size."""
        self.eval()
        for size in ((_PROBE, _PROBE), own_size):
            images = _whole_patches(torch.zeros(1, 3, *size), *self.patch)
            try:
                features = self.net.forward_features(images)
                self.layout = _layout(features.shape, self.channels)
                self._arranged(features, images)
            except (AssertionError, AttributeError, RuntimeError, TypeError, ValueError):
                continue
            _maps.freeze_unreached(self, features)
            self.train()
            return
        raise UserError(f"timm/{self.name} gives no feature map (B, C, h, w); use another model")


def _library(model: str) -> Any:
    """Return timm, which has this model."""
    try:
        import timm
    except ImportError:
        raise UserError(f"backbone timm/{model} needs timm; pip install 'dmltune[timm]'") from None
    if not timm.is_model(model):
        raise UnknownModelError(f"timm has no model '{model}'{nearest(model, timm.list_models())}")
    return timm


def _patch_size(embed: Any) -> tuple[int, int]:
    """Return the numbers that the sides of images have to be multiples of."""
    from timm.layers.patch_embed import PatchEmbed

    if not isinstance(embed, PatchEmbed) or embed.dynamic_img_pad:
        return 1, 1
    down, across = embed.patch_size
    return down, across


def _layout(shape: torch.Size, channels: int) -> str:
    if len(shape) == 3 and shape[2] == channels:
        return "tokens"
    if len(shape) == 4 and channels in (shape[1], shape[3]):
        return "map" if shape[1] == channels else "channels last"
    raise ValueError(f"{tuple(shape)} is no map of {channels} channels")


def _whole_patches(images_B3HW: Tensor, down: int, across: int) -> Tensor:
    height, width = images_B3HW.shape[2:]
    return images_B3HW[..., : height // down * down, : width // across * across]


def _created(model: str) -> Any:
    import timm

    for pooling, size in itertools.product(_NO_POOLING, _ANY_SIZE):
        try:
            return timm.create_model(model, num_classes=0, **pooling, **size)
        except (AssertionError, TypeError):  # the class lacks this argument or value
            if not pooling and not size:
                raise
    raise AssertionError("the last arguments are none")
