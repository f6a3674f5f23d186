"""Options of a training step besides loss, gradient and update; the defaults do nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dmltune.errors import UserError, nearest

PRECISIONS = ("float32", "bfloat16", "auto")


@dataclass(frozen=True)
class Options:
    """clip_norm: upper bound of the length of the gradient of everything that learns, as one vector.
    warmup_new_layers: the backbone does not learn for this many steps (its batch norms follow the statistics
    unless frozen). ema: decay of the average of the weights that is validated and stored (0: none).
    precision: type that the backbone computes in while it trains.
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
