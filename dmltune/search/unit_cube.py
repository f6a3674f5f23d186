"""Points of a search space as points of the unit cube, for samplers that compute with numbers.

Shapes: N points, D columns, P parameters. A number is one column (its logarithm with `log`); whole numbers
are in the middle of bins of equal width. A choice has one column for each of its values, 1 for the chosen one
and 0 for the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    FloatDistribution,
    IntDistribution,
)

Floats = NDArray[np.float64]
MISSING = object()  # the value of a parameter that does not apply
FINE = 100  # whole numbers with more values than this are moved like floats


@dataclass(frozen=True)
class Axis:
    """One parameter and its columns."""

    name: str
    distribution: BaseDistribution
    start: int

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(getattr(self.distribution, "choices", ()))

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + max(1, len(self.choices)))

    @property
    def levels(self) -> int | None:
        """How many values there are; None for a float without a step."""
        if self.choices:
            return len(self.choices)
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        if self.distribution.step is None:
            return None
        return round((self.distribution.high - self.distribution.low) / self.distribution.step) + 1

    def _limits(self) -> tuple[float, float]:
        """Return the values (or logarithms) at 0 and 1; half a bin outside the bounds for stepped ones."""
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        half = 0.5 * (self.distribution.step or 0.0)
        low, high = self.distribution.low - half, self.distribution.high + half
        return (math.log(low), math.log(high)) if self.distribution.log else (low, high)

    def encode(self, value: Any) -> Floats:
        """Return the columns of a value."""
        if self.choices:
            return np.array([float(_same(choice, value)) for choice in self.choices])
        columns: Floats = self.encode_all([value])[0]
        return columns

    def encode_all(self, values: Sequence[Any]) -> Floats:
        """Return the columns of N values; MISSING lies in the middle."""
        if self.choices:
            rows = {(type(choice), choice): self.encode(choice) for choice in self.choices}
            middle = np.full(len(self.choices), 1.0 / len(self.choices))
            unknown = np.zeros(len(self.choices))
            blocks = [middle if v is MISSING else rows.get((type(v), v), unknown) for v in values]
            return np.array(blocks).reshape(len(values), len(self.choices))
        low, high = self._limits()
        numbers_N = np.array([math.nan if value is MISSING else value for value in values], dtype=float)
        if high == low:
            return np.full((len(values), 1), 0.5)
        scaled_N = np.log(numbers_N) if getattr(self.distribution, "log", False) else numbers_N
        places_N = np.clip((scaled_N - low) / (high - low), 0.0, 1.0)
        return np.where(np.isnan(places_N), 0.5, places_N)[:, None]

    def decode(self, block_D: Floats) -> Any:
        """Return the value that is nearest to these columns."""
        if self.choices:
            return self.choices[int(np.argmax(block_D))]
        value = float(self._numbers(block_D)[0])
        return round(value) if isinstance(self.distribution, IntDistribution) else value

    def snap(self, block_ND: Floats) -> Floats:
        """Move the columns of N points to those of values that exist."""
        if self.choices:
            nearest: Floats = np.eye(len(self.choices))[np.argmax(block_ND, axis=1)]
            return nearest
        if self.levels is None:
            inside: Floats = np.clip(block_ND, 0.0, 1.0)
            return inside
        low, high = self._limits()
        numbers = self._numbers(block_ND)
        return ((np.log(numbers) if getattr(self.distribution, "log", False) else numbers) - low) / (
            high - low
        )

    def spread(self, uniform_N: Floats) -> Floats:
        """Return the columns of values that are uniform where the numbers are."""
        if not self.choices:
            return self.snap(uniform_N[:, None])
        index = np.minimum((uniform_N * len(self.choices)).astype(int), len(self.choices) - 1)
        chosen: Floats = np.eye(len(self.choices))[index]
        return chosen

    def between(self, places_N: Floats) -> Floats:
        """Return the numbers at places from 0 to 1, whether they exist or not."""
        low, high = self._limits()
        numbers: Floats = low + places_N * (high - low)
        return np.exp(numbers) if getattr(self.distribution, "log", False) else numbers

    def _numbers(self, block: Floats) -> Floats:
        low, high = self._limits()
        assert isinstance(self.distribution, FloatDistribution | IntDistribution)
        numbers = low + np.clip(block, 0.0, 1.0) * (high - low)
        numbers = np.exp(numbers) if self.distribution.log else numbers
        if step := self.distribution.step:
            numbers = self.distribution.low + step * np.round((numbers - self.distribution.low) / step)
        return np.clip(numbers, self.distribution.low, self.distribution.high)


class UnitCube:
    """All parameters of a space. `groups_D` is the parameter of each column."""

    def __init__(self, space: Mapping[str, BaseDistribution]) -> None:
        self.axes: list[Axis] = []
        for name, distribution in space.items():
            start = self.axes[-1].columns.stop if self.axes else 0
            self.axes.append(Axis(name, distribution, start))
        self.dimension = self.axes[-1].columns.stop if self.axes else 0
        self.groups_D = np.repeat(
            np.arange(len(self.axes)), [axis.columns.stop - axis.start for axis in self.axes]
        )
        self.smooth_D = np.array([self._smooth(self.axes[group]) for group in self.groups_D], dtype=bool)

    @staticmethod
    def _smooth(axis: Axis) -> bool:
        return not axis.choices and (axis.levels is None or axis.levels > FINE)

    @property
    def finite(self) -> bool:
        return all(axis.levels is not None for axis in self.axes)

    def encode(self, values: Mapping[str, Any]) -> Floats:
        """Return the point of these values; a parameter that does not apply lies in the middle."""
        found: Floats = self.encode_all([values])[0]
        return found

    def encode_all(self, rows: Sequence[Mapping[str, Any]]) -> Floats:
        """Return the points of N mappings of values (N, D)."""
        if not rows or not self.axes:
            return np.empty((len(rows), self.dimension))
        blocks = [axis.encode_all([row.get(axis.name, MISSING) for row in rows]) for axis in self.axes]
        point_ND: Floats = np.concatenate(blocks, axis=1)
        return point_ND

    def decode(self, point_D: Floats) -> dict[str, Any]:
        return {axis.name: axis.decode(point_D[axis.columns]) for axis in self.axes}

    def snap(self, points_ND: Floats) -> Floats:
        """Return the nearest points that exist."""
        return np.concatenate([axis.snap(points_ND[:, axis.columns]) for axis in self.axes], axis=1)

    def spread(self, uniform_NP: Floats) -> Floats:
        """Return the points of N rows of uniform numbers, one for each parameter."""
        return np.concatenate([axis.spread(uniform_NP[:, i]) for i, axis in enumerate(self.axes)], axis=1)

    def neighbours(self, point_D: Floats) -> Iterator[Floats]:
        """Yield the points that differ in one parameter: another choice, or a whole number beside it."""
        for axis in self.axes:
            if axis.levels is None or self._smooth(axis):
                continue
            for other in self._others(axis, point_D[axis.columns]):
                neighbour_D = point_D.copy()
                neighbour_D[axis.columns] = other
                yield neighbour_D

    @staticmethod
    def _others(axis: Axis, block_D: Floats) -> list[Floats]:
        if axis.choices:
            return [row for row in np.eye(len(axis.choices)) if not np.array_equal(row, block_D)]
        assert isinstance(axis.distribution, FloatDistribution | IntDistribution)
        value, step = axis.decode(block_D), axis.distribution.step or 1
        beside = [value + shift * step for shift in (-2, -1, 1, 2)]
        return [axis.encode(v) for v in beside if axis.distribution.low <= v <= axis.distribution.high]


def _same(choice: Any, value: Any) -> bool:
    """Compare choices; true and 1 are different ones."""
    return type(choice) is type(value) and bool(choice == value)
