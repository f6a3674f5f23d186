"""Samplers, found by file name: `samplers/tpe.py` holds the class `Tpe`, whose signature is its schema.

`build(trials, seed)` returns Optuna's sampler; Optuna is imported there, so listing names and parameters is
quick. What a sampler stores in trials and in the study survives a resume (sampling.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

PACKAGE = "dmltune.search.samplers"


class Sampler(Protocol):
    def build(self, trials: int, seed: int) -> BaseSampler:
        """Return Optuna's sampler for a search of so many trials."""


def load(name: str, **parameters: Any) -> Sampler:
    """Return the sampler with this name; an unknown name or parameter is a UserError."""
    from dmltune.core import components

    sampler: Sampler = components.build(PACKAGE, name, {}, parameters)
    return sampler


def startup_trials(requested: int | None, trials: int) -> int:
    """Return how many trials are random: as requested, else a quarter of all, 2 to 10."""
    return requested if requested is not None else min(10, max(2, trials // 4))
