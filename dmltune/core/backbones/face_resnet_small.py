"""The face network of the unbalanced experiment of seed 001, §4.2: one residual unit in each stage."""

from __future__ import annotations

from typing import ClassVar

from dmltune.core.backbones.face_resnet import FaceResnet


class FaceResnetSmall(FaceResnet):
    """`face_resnet` with (1, 1, 1, 1) units: 12 convolutions."""

    stages: ClassVar = ((64, 1), (128, 1), (256, 1), (512, 1))
