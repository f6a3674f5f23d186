"""Distances of pairs of one class and of two as figures, side by side for several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dmltune.report import charts, formatting
from dmltune.report.charts import Chart, Spec, quantity, tooltip
from dmltune.report.figures import shares


class Histogram(Protocol):
    """Counts of pairs of the same class and of different classes, between the `edges`."""

    @property
    def edges(self) -> Sequence[float]: ...
    @property
    def positive(self) -> Sequence[float]: ...
    @property
    def negative(self) -> Sequence[float]: ...


class StoredHistogram(NamedTuple):
    """One that was read from a stored gallery."""

    edges: Sequence[float]
    positive: Sequence[float]
    negative: Sequence[float]


def histograms(named: Mapping[str, Histogram]) -> list[Chart]:
    """Return a figure for each model, all with the same axis."""
    reach = max((used(histogram) for histogram in named.values()), default=0.0)
    found: list[Chart] = []
    for name, histogram in named.items():
        values = [
            {"pairs": pairs, "low": round(low, 4), "high": round(high, 4), "share": round(100 * share, 3)}
            for low, high, both in zip(histogram.edges, histogram.edges[1:], _pairs(histogram), strict=False)
            if low < reach
            for pairs, share in zip(("same class", "two classes"), both, strict=True)
        ]
        caption = f"{charts.text_of(name)}: the two overlap by {formatting.percent(overlap(histogram))} %."
        alt = f"Distances of pairs of one class and of two. {caption}"
        found.append(Chart(f"distances-{len(found) + 1}", alt, caption, _spec(values, reach)))
    return found


def _spec(values: list[dict[str, Any]], reach: float) -> Spec:
    colours = {"same class": charts.BLUE, "two classes": charts.ORANGE}
    told = tooltip(("pairs", "pairs of"), ("low", "distance from"), ("high", "to"), ("share", "share %"))
    encoding: Spec = {
        "x": quantity("low", "distance", scale={"domain": [0, reach], "nice": False}),
        "x2": {"field": "high"},
        "y": {"field": "share", "type": "quantitative", "title": "share of their pairs, %"},
        "y2": {"datum": 0},
        "color": charts.coloured("pairs", colours),
        "tooltip": told,
    }
    return charts.layered(values, 150, {"mark": {"type": "rect", "opacity": 0.5}, "encoding": encoding})


def used(histogram: Histogram) -> float:
    """Return the end of the last bin that holds a thousandth of either kind of pairs."""
    last = max((at for at, pair in enumerate(_pairs(histogram)) if max(pair) > 1e-3), default=-1)
    return histogram.edges[last + 1] if last >= 0 else histogram.edges[-1]


def overlap(histogram: Histogram) -> float:
    """Σ min(p, q) of the two shares: 0 when distances separate the classes, 1 when they say nothing."""
    return sum(min(pair) for pair in _pairs(histogram))


def _pairs(histogram: Histogram) -> list[tuple[float, float]]:
    positive, negative = shares(histogram.positive), shares(histogram.negative)
    return list(zip(positive, negative, strict=True))
