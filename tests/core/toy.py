"""A small real problem: noisy patterns as images, a two-layer backbone with batch norm, in the dtype that
is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dmltune.core import losses, poolings, references, transforms
from dmltune.core.backbones import Backbone
from dmltune.core.embedder import Embedder
from dmltune.core.objective import Objective
from dmltune.core.optimizers import build, parameter_groups
from dmltune.core.run import Options, Run, Schedule
from dmltune.core.zero_shot import ZeroShot

CLASSES, SIDE, DIM = 5, 8, 6


class ToyBackbone(Backbone):
    channels = 7
    mean = (0.5, 0.5, 0.5)
    std = (0.5, 0.5, 0.5)

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 5, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(5)
        self.conv2 = nn.Conv2d(5, self.channels, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(self.channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, images_B3HW: Tensor) -> Tensor:
        features = torch.tanh(self.bn1(self.conv1(images_B3HW)))
        out: Tensor = self.dropout(torch.tanh(self.bn2(self.conv2(features))))
        return out


class ToyFeed:
    """Class c is pattern c plus noise; every batch is a function of its step, shared out to the ranks."""

    num_classes = CLASSES
    queries_N: Tensor | None = None

    def __init__(self, rank: int = 0, world: int = 1, batch_size: int = 12, noise: float = 90.0) -> None:
        self.rank, self.world, self.batch_size, self.noise = rank, world, batch_size, noise
        generator = torch.Generator().manual_seed(1)
        self.patterns = torch.rand(2 * CLASSES, 3, SIDE, SIDE, generator=generator, dtype=torch.float32) * 255

    def images(self, labels: Tensor, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(len(labels), 3, SIDE, SIDE, generator=generator, dtype=torch.float32)
        return (self.patterns[labels] + self.noise * noise).clamp(0, 255).to(torch.uint8)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        labels = (torch.arange(self.batch_size) // 3 + step) % CLASSES
        size = self.batch_size // self.world
        share = slice(self.rank * size, (self.rank + 1) * size)
        return self.images(labels, 100 + step)[share], labels[share]

    @property
    def monitored_N(self) -> Tensor:
        return (torch.arange(23) % CLASSES < 3).nonzero().flatten()

    def validation(self, places_N: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        labels = torch.arange(23) % CLASSES + CLASSES
        mine = (torch.arange(23) if places_N is None else places_N)[self.rank :: self.world]
        yield from zip(
            torch.split(self.images(labels, 7)[mine], 5), torch.split(labels[mine], 5), strict=True
        )

    def pool(self, per_class: int, round: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        labels = torch.arange(CLASSES).repeat_interleave(per_class)
        slots = torch.arange(per_class).repeat(CLASSES)
        images = self.images(labels, 1000 + round)
        kept = (labels > 0) | (slots < 2)  # class 0 has two images only
        mine = torch.arange(len(labels))[kept][self.rank :: self.world]
        for part in torch.split(mine, 7):
            yield images[part], labels[part], slots[part]


def objective(
    kind: str = "batch",
    dtype: torch.dtype = torch.float32,
    dropout: float = 0.0,
    parts: dict[str, tuple[str, dict[str, Any]]] | None = None,
    **parameters: Any,
) -> Objective:
    """`parts`: section → (name, parameters) where it is not C2, average pooling and nothing else."""
    torch.manual_seed(0)
    parts = {"loss": ("contrastive", {"neg_margin": 0.5}), "pooling": ("gap", {}), **(parts or {})}

    def part(section: str, load: Any, *given: Any) -> Any:
        name, chosen = parts[section]
        return load(name, *given, **chosen)

    chosen = references.load(kind, CLASSES, DIM, **parameters)
    pooling = part("pooling", poolings.load, DIM)
    embedder = Embedder(ToyBackbone(dropout), pooling, DIM, chosen.normalise)
    counts_C = torch.tensor([3, 30, 5, 20, 40])
    transform = part("transform", transforms.load, CLASSES, DIM, counts_C) if "transform" in parts else None
    zero_shot = ZeroShot(CLASSES, pooling.attributes, dim=DIM) if "zero_shot" in parts else None
    loss = part("loss", losses.load, CLASSES, DIM)
    return Objective(embedder, loss, chosen, transform, zero_shot).to(dtype)


def run(
    kind: str = "batch",
    schedule: Schedule | None = None,
    feed: Any = None,
    optimizer: str = "adam",
    lr: float = 1e-2,
    dtype: torch.dtype = torch.float32,
    dropout: float = 0.0,
    parts: dict[str, tuple[str, dict[str, Any]]] | None = None,
    options: Options | None = None,
    **parameters: Any,
) -> Run:
    goal = objective(kind, dtype, dropout, parts, **parameters)
    extras = {"momentum": 0.9} if optimizer == "sgd" else {}
    built = build(optimizer, parameter_groups(goal, lr, 1e-3, new_layer_factor=2, proxy_factor=3), **extras)
    return Run(goal, built, feed or ToyFeed(), schedule or Schedule(max_steps=12, validate_every=4), options)
