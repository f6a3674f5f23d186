"""The figures of a check. Each function returns "" where the document has nothing to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dmltune.errors import printable
from dmltune.report import check_sentences as say
from dmltune.report import figures, formatting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dmltune.check.document import CheckDocument, ConfigurationResult, DistanceHistogram

COLOURS = {"winner": "#1f77b4", "reference point": "#d95f02", "baseline": "#555555"}
OTHERS = ("#7b5ea7", "#2a8c82", "#a8763e", "#b04a79")
KINDS: dict[say.Kind, str] = {
    "better": "#1a7f4b",
    "worse": "#b3362b",
    "none": "#4d5560",
    "unknown": "#a06a00",
    "itself": "#555555",
}
MANY_CLASSES = 300  # more bars than this are drawn as a band through as many of them
GRID: dict[str, Any] = {"color": "#e4e7eb", "lw": 0.8}
NONE = Markup("")


def forest(document: CheckDocument) -> Markup:
    """Draw the difference to the baseline with its interval, a line for each configuration."""
    compared = [(row, row.versus_baseline) for row in document.configurations]
    rows = [(row, versus) for row, versus in compared if versus and say.known(versus.difference) is not None]
    if not rows:
        return NONE

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        for at, (row, versus) in enumerate(rows):
            middle = 100 * (versus.difference or 0.0)
            low, high = say.known(versus.low), say.known(versus.high)
            colour = KINDS[say.judge(document, row).kind]
            if low is not None and high is not None:
                axis.plot([100 * low, 100 * high], [at, at], color=colour, lw=2.4, solid_capstyle="butt")
                axis.plot([100 * low, 100 * high], [at, at], "|", color=colour, ms=9, mew=1.6)
            axis.plot(middle, at, "D", color=colour, ms=6.5, mec="white", mew=0.8, zorder=3)
            text = say.typeset(say.points(versus.difference, say.digits_for(low, high)))
            label = axis.annotate(text, (middle, at), (0, 8), textcoords="offset points", ha="center")
            label.set(color=colour, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
        axis.axvline(0, color="#222222", lw=1)
        axis.set_yticks(range(len(rows)), [broken(row) for row, _ in rows])
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.set_xlabel(f"{formatting.metric_name(document.metric)} − baseline, points")
        axis.grid(axis="x", **GRID)
        axis.margins(x=0.12)

    return figures.svg(draw, 0.95 + 0.55 * len(rows), "differences to the baseline with their intervals")


def every_model(document: CheckDocument) -> Markup:
    """Draw every model's score, and beside them mean and interval; lines join one fold and seed."""
    metric = document.metric
    rows = [row for row in document.configurations if row.models]
    measured = "validation" if document.validation_only else "test"
    places: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for at, row in enumerate(rows):
        for model in row.models:
            score = say.known(document.score(model, metric))
            if score is not None:
                aside = 0.06 * (model.fold - (document.folds - 1) / 2)
                places.setdefault((model.fold, model.seed), []).append((at + aside, 100 * score))

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        for line in places.values():
            axis.plot(*zip(*line, strict=True), color="#c6ccd4", lw=0.7, zorder=1)
        for at, row in enumerate(rows):
            own = [point for line in places.values() for point in line if abs(point[0] - at) < 0.5]
            x, y = zip(*own, strict=True) if own else ((), ())
            axis.scatter(x, y, s=16, color=colour_of(row, at), lw=0, alpha=0.8, zorder=2)
            result = row.single.get(metric)
            mean, ends = say.known(result.mean) if result else None, say.bounds(result)
            if mean is not None and ends is not None:
                error = [[100 * (mean - ends[0])], [100 * (ends[1] - mean)]]
                axis.errorbar(at + 0.3, 100 * mean, error, fmt="_", color="#222222", ms=9, capsize=3, lw=1.4)
        axis.set_xticks(range(len(rows)), [broken(row) for row in rows])
        axis.set_xlim(-0.5, len(rows) - 0.5)
        axis.set_ylabel(f"{measured} {formatting.metric_name(metric)}, %")
        axis.grid(axis="y", **GRID)

    return figures.svg(draw, 2.9, "the score of every model by configuration") if places else NONE


def class_differences(document: CheckDocument, key: str) -> Markup:
    """Draw the difference to the baseline of every class, the largest gain first."""
    gaps = sorted((gap for _, gap in class_gaps(document, key)), reverse=True)

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        if len(gaps) <= MANY_CLASSES:
            colours = [KINDS["better" if gap > 0 else "worse"] for gap in gaps]
            axis.bar(range(1, len(gaps) + 1), [100 * gap for gap in gaps], width=0.85, color=colours)
        else:
            places = [round(at * (len(gaps) - 1) / (MANY_CLASSES - 1)) for at in range(MANY_CLASSES)]
            signs: tuple[tuple[int, say.Kind], ...] = ((1, "better"), (-1, "worse"))
            for sign, kind in signs:
                heights = [100 * gaps[at] if sign * gaps[at] > 0 else 0.0 for at in places]
                axis.fill_between([at + 1 for at in places], heights, color=KINDS[kind], lw=0)
        axis.axhline(0, color="#222222", lw=1)
        axis.set_xlim(0.4, len(gaps) + 0.6)
        axis.set_xlabel("test classes, sorted")
        axis.set_ylabel("− baseline, points")
        axis.grid(axis="y", **GRID)

    return figures.svg(draw, 2.3, "difference to the baseline of every class, sorted") if gaps else NONE


def class_gaps(document: CheckDocument, key: str) -> list[tuple[int, float]]:
    """Return (place of the class, its score − the baseline's) where both are known."""
    scores = document.per_class.scores if document.per_class else {}
    pairs = zip(scores.get(key, ()), scores.get(document.baseline or "", ()), strict=False)
    finite = ((at, say.known(score), say.known(base)) for at, (score, base) in enumerate(pairs))
    return [(at, score - base) for at, score, base in finite if score is not None and base is not None]


def distances(document: CheckDocument, main: ConfigurationResult | None) -> Markup:
    """Draw the distances of pairs of one class and of two, of the main configuration and the baseline."""
    keys = dict.fromkeys((main.key if main else "", document.baseline or ""))
    histograms = {key: document.distances[key] for key in keys if key in document.distances}
    if not histograms:
        return NONE
    reach = max(used(histogram) for histogram in histograms.values())

    def draw(figure: Figure) -> None:
        axes: list[Axes] = list(figure.subplots(len(histograms), 1, sharex=True, squeeze=False)[:, 0])
        for axis, (key, histogram) in zip(axes, histograms.items(), strict=True):
            figures.stairs(axis, histogram.edges, histogram.positive, histogram.negative)
            row = document.configuration(key)
            name = printable(row.name if row else key)
            share = formatting.percent(overlap(histogram))
            axis.set_title(f"{name}: the two overlap by {share} %", fontsize=9, loc="left")
            axis.set_yticks([])
            axis.set_xlim(0, reach)
        axes[0].legend(frameon=False, loc="best")
        axes[-1].set_xlabel("distance")

    label = "distances of pairs of the same and of two classes"
    return figures.svg(draw, 0.7 + 1.25 * len(histograms), label)


def used(histogram: DistanceHistogram) -> float:
    """Return the end of the last bin that holds a thousandth of either kind of pairs."""
    last = max((at for at, pair in enumerate(_pairs(histogram)) if max(pair) > 1e-3), default=-1)
    return histogram.edges[last + 1] if last >= 0 else histogram.edges[-1]


def overlap(histogram: DistanceHistogram) -> float:
    """Σ min(p, q) of the two shares: 0 when distances separate the classes, 1 when they say nothing."""
    return sum(min(pair) for pair in _pairs(histogram))


def _pairs(histogram: DistanceHistogram) -> list[tuple[float, float]]:
    positive, negative = figures.shares(histogram.positive), figures.shares(histogram.negative)
    return list(zip(positive, negative, strict=True))


def colour_of(row: ConfigurationResult, at: int) -> str:
    return next((COLOURS[label] for label in row.labels if label in COLOURS), OTHERS[at % len(OTHERS)])


def broken(row: ConfigurationResult) -> str:
    """Return the name of a configuration in several lines, for an axis."""
    return printable(row.name).replace(" = ", " =\n").replace("reference point", "reference\npoint")
