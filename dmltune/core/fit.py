"""The loop, read top to bottom: `fit` is a generator that yields one `Progress` per validation and calls nothing back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from dmltune.core.objective import Objective


@dataclass(frozen=True)
class Progress:
    """What is known after a validation. `score` is `metrics[schedule.metric]`; reason: "" | max_steps | patience | stopped."""

    step: int
    max_steps: int
    metrics: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    best_score: float = 0.0
    best_step: int = 0
    improved: bool = False
    finished: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Schedule:
    """When to validate and when to stop; `patience` counts validations without improvement."""

    max_steps: int
    validate_every: int
    patience: int | None = None
    metric: str = "map_at_r"
    mode: Literal["max", "min"] = "max"


class Diverged(Exception):
    """The loss or the embeddings are no longer finite; raised on all ranks."""

    def __init__(self, step: int, what: str) -> None:
        super().__init__(f"{what} is not finite at step {step}")
        self.step, self.what = step, what

    def __reduce__(self) -> tuple[type[Diverged], tuple[int, str]]:
        return type(self), (self.step, self.what)


class Feed(Protocol):
    """Where the images come from: uint8 (B, 3, H, W), or float in [0, 1]; training labels are 0..num_classes-1."""

    @property
    def num_classes(self) -> int: ...

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """This rank's slice of the batch of a step: (images_B3HW, labels_B)."""

    def validation(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This rank's share, in order: rank r has the items r::world."""

    def pool(self, per_class: int, round: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """This rank's share of `per_class` fresh augmented samples a class: (images, labels_B, slot_B)."""


class Run:
    """The whole state of a training. (being written)"""

    def __init__(
        self, objective: Objective, optimizer: torch.optim.Optimizer, feed: Feed, schedule: Schedule
    ) -> None:
        raise NotImplementedError

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        raise NotImplementedError

    def restore(self, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        raise NotImplementedError


def fit(run: Run, should_stop: Callable[[], bool] | None = None) -> Iterator[Progress]:
    raise NotImplementedError
