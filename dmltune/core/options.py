"""What a training step may do beside loss, gradient and update; the defaults do nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dmltune.errors import UserError, nearest

PRECISIONS = ("float32", "bfloat16", "auto")


@dataclass(frozen=True)
class Options:
    """clip_norm          the gradient of everything that learns, as one vector, is made no longer than this
    warmup_new_layers  for so many steps the backbone rests: what was not pretrained learns alone. Its batch
                       norms go on following the statistics unless they are frozen.
    ema                decay of the average of the embedder's weights that is validated and kept (core.ema); 0
                       keeps the weights themselves
    precision          what the backbone computes in while it trains (core.precision)
    """

    clip_norm: float | None = None
    warmup_new_layers: int = 0
    ema: float = 0.0
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise UserError(f"clip_norm must be above 0, or none; got {self.clip_norm}")
        if self.warmup_new_layers < 0:
            raise UserError(f"warmup_new_layers must be at least 0; got {self.warmup_new_layers}")
        if not 0 <= self.ema < 1:
            raise UserError(f"ema must be at least 0 and below 1; got {self.ema}")
        if self.precision not in PRECISIONS:
            raise UserError(
                f"no precision '{self.precision}'; there are {', '.join(PRECISIONS)}"
                f"{nearest(self.precision, PRECISIONS)}"
            )
