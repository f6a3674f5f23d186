"""The figures of a check as SVG inside a page: narrow enough for a phone, text that stays text.

Each returns "" where the document has nothing to draw.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dmltune.report import check_sentences as say
from dmltune.report import formatting
from dmltune.report.markup import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.5  # inches: on a phone about its real size
COLOURS = {"winner": "#1f77b4", "reference point": "#d95f02", "baseline": "#555555"}
OTHERS = ("#7b5ea7", "#2a8c82", "#a8763e", "#b04a79")
KINDS = {
    "better": "#1a7f4b",
    "worse": "#b3362b",
    "none": "#4d5560",
    "unknown": "#a06a00",
    "itself": "#555555",
}
MANY_CLASSES = 300  # more bars than that are a band through so many of them


def forest(document: Mapping[str, Any]) -> Markup:
    """The difference to the baseline with its interval, a line for each configuration."""
    rows = [row for row in document["configurations"] if row.get("versus_baseline")]
    rows = [row for row in rows if say.known(row["versus_baseline"].get("difference")) is not None]
    if not rows:
        return Markup("")

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        for at, row in enumerate(rows):
            versus, judgement = row["versus_baseline"], say.judge(document, row)
            middle = 100 * versus["difference"]
            low, high = say.known(versus.get("low")), say.known(versus.get("high"))
            colour = KINDS[judgement.kind]
            if low is not None and high is not None:
                axis.plot([100 * low, 100 * high], [at, at], color=colour, lw=2.4, solid_capstyle="butt")
                axis.plot([100 * low, 100 * high], [at, at], "|", color=colour, ms=9, mew=1.6)
            axis.plot(middle, at, "D", color=colour, ms=6.5, mec="white", mew=0.8, zorder=3)
            figures = say.typeset(say.points(versus["difference"], say.digits_for(low, high)))
            label = axis.annotate(figures, (middle, at), (0, 8), textcoords="offset points", ha="center")
            label.set(color=colour, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})
        axis.axvline(0, color="#222222", lw=1)
        axis.set_yticks(range(len(rows)), [broken(say.name_of(row)) for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.set_xlabel(f"{formatting.metric_name(document['metric'])} − baseline, points")
        axis.grid(axis="x", color="#e4e7eb", lw=0.8)
        axis.margins(x=0.12)

    return drawn(draw, 0.95 + 0.55 * len(rows), "differences to the baseline with their intervals")


def every_model(document: Mapping[str, Any]) -> Markup:
    """Every model's score; lines join those of one fold and seed; beside them mean and interval."""
    metric = document["metric"]
    rows = [row for row in document["configurations"] if row.get("models")]
    if not rows:
        return Markup("")
    places: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for at, row in enumerate(rows):
        for model in row["models"]:
            score = say.known(model["test"].get(metric))
            if score is not None:
                aside = 0.06 * (model["fold"] - (document["folds"] - 1) / 2)
                places.setdefault((model["fold"], model["seed"]), []).append((at + aside, 100 * score))

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        for line in places.values():
            axis.plot(*zip(*line, strict=True), color="#c6ccd4", lw=0.7, zorder=1)
        for at, row in enumerate(rows):
            own = [point for line in places.values() for point in line if abs(point[0] - at) < 0.5]
            x, y = zip(*own, strict=True)
            axis.scatter(x, y, s=16, color=colour_of(row, at), lw=0, alpha=0.8, zorder=2)
            interval = (row.get("single") or {}).get(metric) or {}
            mean, low, high = (say.known(interval.get(key)) for key in ("mean", "low", "high"))
            if mean is not None and low is not None and high is not None:
                error = [[100 * (mean - low)], [100 * (high - mean)]]
                axis.errorbar(at + 0.3, 100 * mean, error, fmt="_", color="#222222", ms=9, capsize=3, lw=1.4)
        axis.set_xticks(range(len(rows)), [broken(say.name_of(row)) for row in rows])
        axis.set_xlim(-0.5, len(rows) - 0.5)
        axis.set_ylabel(f"test {formatting.metric_name(metric)}, %")
        axis.grid(axis="y", color="#e4e7eb", lw=0.8)

    return drawn(draw, 2.9, "the score of every model by configuration") if places else Markup("")


def class_differences(document: Mapping[str, Any], key: str) -> Markup:
    """Winner − baseline of every class, the largest gain first."""
    gaps = sorted((gap for _, gap in class_gaps(document, key)), reverse=True)
    if not gaps:
        return Markup("")

    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        if len(gaps) <= MANY_CLASSES:
            colours = [KINDS["better"] if gap > 0 else KINDS["worse"] for gap in gaps]
            axis.bar(range(1, len(gaps) + 1), [100 * gap for gap in gaps], width=0.85, color=colours)
        else:
            places = [round(at * (len(gaps) - 1) / (MANY_CLASSES - 1)) for at in range(MANY_CLASSES)]
            for sign, kind in ((1, "better"), (-1, "worse")):
                heights = [100 * gaps[at] if sign * gaps[at] > 0 else 0.0 for at in places]
                axis.fill_between([at + 1 for at in places], heights, color=KINDS[kind], lw=0)
        axis.axhline(0, color="#222222", lw=1)
        axis.set_xlim(0.4, len(gaps) + 0.6)
        axis.set_xlabel("test classes, sorted")
        axis.set_ylabel("− baseline, points")
        axis.grid(axis="y", color="#e4e7eb", lw=0.8)

    return drawn(draw, 2.3, "difference to the baseline of every class, sorted")


def class_gaps(document: Mapping[str, Any], key: str) -> list[tuple[int, float]]:
    """(place of the class, its score − the baseline's), where both are known."""
    scores: Mapping[str, Sequence[float | None]] = document.get("per_class") or {}
    base = scores.get(document.get("baseline") or "", ())
    pairs = enumerate(zip(scores.get(key, ()), base, strict=False))  # either may be missing
    return [
        (at, float(mine) - float(theirs))
        for at, (mine, theirs) in pairs
        if say.known(mine) is not None
        and say.known(theirs) is not None
        and mine is not None
        and theirs is not None
    ]


def distances(document: Mapping[str, Any], keys: Sequence[str]) -> Markup:
    """Distances of pairs of one class and of two, as shares of either kind."""
    found: Mapping[str, Mapping[str, Sequence[float]]] = document.get("distances") or {}
    keys = [key for key in keys if key in found]
    if not keys:
        return Markup("")
    reach = max(used(found[key]) for key in keys)

    def draw(figure: Figure) -> None:
        axes: list[Axes] = list(figure.subplots(len(keys), 1, sharex=True, squeeze=False)[:, 0])
        for axis, key in zip(axes, keys, strict=True):
            edges = found[key]["edges"]
            for kind, label, colour in (
                ("positive", "same class", "#1f77b4"),
                ("negative", "other class", "#d95f02"),
            ):
                part = shares(found[key][kind])
                axis.stairs(part, edges, fill=True, alpha=0.45, color=colour, label=label)
                axis.stairs(part, edges, color=colour, lw=0.9)
            axis.set_title(titled(document, key), fontsize=9, loc="left")
            axis.set_yticks([])
            axis.set_xlim(0, reach)
        axes[0].legend(frameon=False, loc="best")
        axes[-1].set_xlabel("distance")

    return drawn(draw, 0.7 + 1.25 * len(keys), "distances of pairs of the same and of two classes")


def used(histogram: Mapping[str, Sequence[float]]) -> float:
    """The distance up to which there is anything to see: a bin with a thousandth of either kind."""
    both = zip(shares(histogram["positive"]), shares(histogram["negative"]), strict=True)
    last = max((at for at, pair in enumerate(both) if max(pair) > 1e-3), default=len(histogram["edges"]) - 2)
    return float(histogram["edges"][last + 1])


def titled(document: Mapping[str, Any], key: str) -> str:
    row = say.find(document, key)
    share = overlap(document["distances"][key])
    return f"{say.name_of(row) if row else key}: the two overlap by {formatting.percent(share)} %"


def overlap(histogram: Mapping[str, Sequence[float]]) -> float:
    """Σ min(p, q) of the two shares: 0 for distances that tell the classes apart, 1 for none that do."""
    both = zip(shares(histogram["positive"]), shares(histogram["negative"]), strict=True)
    return sum(min(pair) for pair in both)


def shares(counts: Sequence[float]) -> list[float]:
    total = sum(counts) or 1.0
    return [count / total for count in counts]


def colour_of(configuration: Mapping[str, Any], at: int) -> str:
    labels = configuration.get("labels") or ()
    return next((COLOURS[label] for label in labels if label in COLOURS), OTHERS[at % len(OTHERS)])


def broken(name: str) -> str:
    """Names below or beside an axis stand on several lines."""
    return name.replace(" = ", " =\n").replace("reference point", "reference\npoint")


def drawn(draw: Callable[[Figure], None], height: float, about: str) -> Markup:
    """The SVG element alone, the same one for the same document; `about` is for people who hear the page."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "dmltune",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.edgecolor": "#8a929c",
        "text.parse_math": False,  # a class may be called $
    }
    stream = io.StringIO()
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the browser has others
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.savefig(
            stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    return Markup(re.sub(r"^<svg", f'<svg role="img" aria-label="{about}"', text))
