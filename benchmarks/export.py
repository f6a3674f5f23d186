"""Exported models beside torch: agreement and latency of ResNet-18 + GAP, Lite0 + GSP and a ViT + GSP.

python benchmarks/export.py [--side 224]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from dmltune.core import backbones, poolings
from dmltune.core.checkpoint import ModelDescription
from dmltune.core.embedder import Embedder
from dmltune.serving import LoadedModel
from dmltune.serving.export import export

NETWORKS = (
    ("torchvision/resnet18", "gap"),
    ("efficientnet_lite0", "gsp"),
    ("timm/vit_tiny_patch16_224", "gsp"),
)
DIM = 128


def model_of(backbone: str, pooling: str, side: int) -> LoadedModel:
    """A network with random weights: agreement and latency do not depend on what it has learned."""
    torch.manual_seed(0)
    embedder = Embedder(backbones.load(backbone), poolings.load(pooling, DIM), DIM, "l2").eval()
    if pooling == "gsp":
        embedder.pooling.start(torch.randn(1000, DIM))
    mean, std = ((*part.flatten().tolist(),) for part in (embedder.mean, embedder.std))
    about = ModelDescription(
        experiment={}, data="", step=1, validation={}, image_size=side, crop_margin=256 / 227,
        exif_rotation=True, mean=mean, std=std, normalise="l2", embedding_size=DIM,
    )  # fmt: skip
    return LoadedModel(f"{backbone} + {pooling}", embedder, about, torch.device("cpu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--side", type=int, default=224)
    args = parser.parse_args()
    for backbone, pooling in NETWORKS:
        model = model_of(backbone, pooling, args.side)
        for form, suffix in (("onnx", "onnx"), ("torchscript", "pt")):
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                done = export(model, Path(folder) / f"x.{suffix}", form)
                row = {
                    "model": model.name,
                    "format": form,
                    "difference": done.difference,
                    "torch_ms": round(done.torch_ms, 2),
                    "exported_ms": round(done.exported_ms, 2),
                    "export_s": round(time.perf_counter() - began, 1),
                }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
