"""`fidelity`: settings of a cheaper training, whose scores may choose which points are trained in full.

The section holds these settings by dotted key, and how they are used: `trials`, `threshold`, `keep`, `cost`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dmltune.experiment.problems import Problem, kind_of, show, unknown

CHEAPER = (
    *("max_steps", "validate_every", "data.size", "data.views", "data.maps", "data.augment"),
    "backbone.frozen_until",
)
WORTH = 0.6
FEWEST = 4  # pairs: even the same order of three is too likely by chance


@dataclass(frozen=True)
class Fidelity:
    """The first `trials` points are trained in full and cheaply. If the rank correlation of their scores is
    at least `threshold`, later points are trained cheaply first, and the best of every `keep` in full.

    `cost` is that of a cheap training as a share of a full one. By default `keep` of them
    cost about `WORTH` of one: 2 to 10.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 6
    threshold: float = 0.6
    keep: int = 3
    cost: float = 0.5

    @classmethod
    def of(cls, section: Mapping[str, Any], max_steps: int, size: int | None = None) -> Fidelity:
        """Validate the section of a training of `max_steps` on images of `size` pixels; raises Problem."""
        for key in section:
            if key not in (*CHEAPER, *_RANGES):
                raise Problem(unknown(str(key), (*CHEAPER, *_RANGES), "fidelity"), ("fidelity", str(key)))
        for key, (kind, low, high) in _RANGES.items():
            if key in section:
                _validate(key, section[key], kind, low, high)
        settings = {key: value for key, value in section.items() if key in CHEAPER}
        if not settings:
            example = "Add 'max_steps: …' or 'data.size: …'."
            raise Problem(f"fidelity has no setting that makes a training cheaper. {example}", ("fidelity",))
        cost = section.get("cost", _share(settings, max_steps, size))
        if cost >= 1:
            remedy = "Lower max_steps or data.size, or set fidelity.cost."
            raise Problem(f"fidelity costs as much as a full training. {remedy}", ("fidelity",))
        used = {"keep": min(10, max(2, round(WORTH / cost)))}
        used |= {key: value for key, value in section.items() if key in _RANGES}
        return cls(settings, **{**used, "cost": cost})


_RANGES: dict[str, tuple[type, float, float]] = {
    "trials": (int, FEWEST, 100),
    "threshold": (float, 0, 1),
    "keep": (int, 2, 100),
    "cost": (float, 0.001, 0.999),
}


def _validate(key: str, value: Any, kind: type, low: float, high: float) -> None:
    path = ("fidelity", key)
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        rule = "a whole number" if kind is int else "a number"
        raise Problem(f"fidelity.{key} must be {rule}; got {kind_of(value)}.", path)
    if not low <= value <= high:
        raise Problem(f"fidelity.{key} must be {show(low)} to {show(high)}; got {show(value)}.", path)


def _share(settings: Mapping[str, Any], max_steps: int, size: int | None) -> float:
    """Return steps × pixels as a share of a full training; what other settings save is not known."""
    share = 1.0
    for key, whole, power in (("max_steps", max_steps, 1), ("data.size", size, 2)):
        value = settings.get(key)
        if isinstance(value, int) and whole:
            share *= (value / whole) ** power
    return share
