"""BN-Inception, the backbone of the papers. Its name is known, so that spaces can say what they need."""

from __future__ import annotations

from dmltune.core.backbones import Backbone
from dmltune.errors import UserError


class BnInception(Backbone):
    def __init__(self) -> None:
        raise UserError(
            "backbone bn_inception is not in this version yet (it arrives with the issue on backbones); "
            "use backbone.name=torchvision/resnet50 or efficientnet_lite0"
        )
