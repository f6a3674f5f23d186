"""The figures of a check. Each function returns None where the document has nothing to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmltune.report import charts, distance_charts, formatting
from dmltune.report import check_sentences as say
from dmltune.report.charts import Chart, Spec, quantity, tooltip

if TYPE_CHECKING:
    from dmltune.check.document import CheckDocument, ConfigurationResult

COLOURS = {"winner": charts.GREEN, "reference point": charts.YELLOW, "baseline": charts.ORANGE}
OTHERS = (charts.BLUE, charts.PINK, charts.SKY, "#a8763e")
KINDS: dict[say.Kind, str] = {
    "better": "#2a9d62",
    "worse": "#cf4a3c",
    "none": charts.GREY,
    "unknown": "#b97f12",
    "itself": charts.GREY,
    "untrained": "#b97f12",
}
FEW_CLASSES = 40  # bars of fewer classes lie, and have their names beside them
MANY_CLASSES = 300  # of more, evenly spaced ones and the extremes are drawn
EXTREMES = 20


def all_of(document: CheckDocument, main: ConfigurationResult | None) -> list[Chart]:
    """Return every figure of a check that has something to show."""
    compared = main is not None and main.key != document.baseline
    found = [forest(document), every_model(document), *distances(document, main)]
    if main is not None and compared:
        found.append(class_differences(document, main.key))
    return [chart for chart in found if chart is not None]


def forest(document: CheckDocument) -> Chart | None:
    """Draw the difference to the baseline with its interval, a line for each configuration."""
    values = []
    for row in document.configurations:
        versus, judgement = row.versus_baseline, say.judge(document, row)
        difference = say.known(versus.difference) if versus else None
        if versus is None or difference is None:
            continue
        low, high = say.known(versus.low), say.known(versus.high)
        ends = {} if low is None or high is None else {"low": 100 * low, "high": 100 * high}
        text = say.typeset(say.points(difference, say.digits_for(low, high)))
        values.append({
            "name": charts.text_of(row.name), "points": 100 * difference, "text": text,
            "finding": judgement.whole, "kind": judgement.kind, **ends,
        })  # fmt: skip
    if not values:
        return None
    title = f"{formatting.metric_name(document.metric)} − baseline, points"
    colour = {
        **charts.coloured("kind", {str(kind): colour for kind, colour in KINDS.items()}),
        "legend": None,
    }
    told = tooltip(("name", ""), ("finding", "finding"))
    x, start = quantity("points", title), quantity("low", title)
    layers: list[Spec] = [
        {"data": {"values": [{"points": 0}]}, "mark": {"type": "rule", "strokeWidth": 1},
         "encoding": {"x": x, "y": None}},
        {"mark": {"type": "rule", "strokeWidth": 3}, "transform": [{"filter": "isValid(datum.low)"}],
         "encoding": {"x": start, "x2": {"field": "high"}, "color": colour, "tooltip": told}},
        {"mark": {"type": "point", "shape": "diamond", "filled": True, "size": 130, "opacity": 1},
         "encoding": {"x": x, "color": colour, "tooltip": told}},
        {"mark": {"type": "text", "dy": -13}, "encoding": {"x": x, "text": {"field": "text"}}},
    ]  # fmt: skip
    y = charts.nominal("name", sort=[row["name"] for row in values])
    spec = charts.layered(values, 46 * len(values) + 20, *layers, encoding={"y": y})
    alt = "; ".join(f"{row['name']} {row['text']} points" for row in values)
    caption = "Differences to the baseline, with their intervals. Zero is the baseline."
    return Chart("differences", f"Differences to the baseline: {alt}", caption, spec)


def every_model(document: CheckDocument) -> Chart | None:
    """Draw every model's score, and their means with intervals; lines join one fold and seed."""
    metric = document.metric
    rows = [row for row in document.configurations if row.models]
    dots, means, colours = [], [], {}
    for at, row in enumerate(rows):
        name = charts.text_of(row.name)
        colours[name] = colour_of(row, at)
        for model in row.models:
            score = say.known(document.score(model, metric))
            if score is not None:
                pair = f"fold {model.fold}, seed {model.seed}"
                untrained = "untrained" if model.step == 0 else f"step {model.step}"
                dots.append({"name": name, "score": 100 * score, "pair": pair, "best": untrained})
        result = row.single.get(metric)
        mean, ends = say.known(result.mean) if result else None, say.bounds(result)
        if mean is not None and ends is not None:
            means.append({"name": name, "mean": 100 * mean, "low": 100 * ends[0], "high": 100 * ends[1]})
    if not dots:
        return None
    measured = "validation" if document.validation_only else "test"
    title = f"{measured} {formatting.metric_name(metric)}, %"
    x, y = charts.nominal("name", sort=list(colours), axis={"labelAngle": 0}), quantity("score", title)
    told = tooltip(("name", ""), ("score", title), ("pair", "model"), ("best", "best at"))
    colour = charts.coloured("name", colours, legend=None)
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": charts.GREY, "opacity": 0.4, "strokeWidth": 1},
         "encoding": {"x": x, "y": y, "detail": {"field": "pair"}}},
        {"mark": {"type": "point", "filled": True, "size": 42, "opacity": 0.85},
         "encoding": {"x": x, "y": y, "color": colour, "tooltip": told}},
        {"data": {"values": means}, "mark": {"type": "rule", "strokeWidth": 2.5, "xOffset": 18}, "encoding": {
            "x": x, "y": quantity("low", title), "y2": {"field": "high"}, "color": colour}},
        {"data": {"values": means}, "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 90,
            "xOffset": 18, "opacity": 1}, "encoding": {"x": x, "y": quantity("mean", title), "color": colour,
            "tooltip": tooltip(("name", "mean of"), ("mean", title), ("low", "from"), ("high", "to"))}},
    ]  # fmt: skip
    caption = "Every model. A line joins models of the same fold and seed; diamonds are means with intervals."
    alt = f"The score of each of {len(dots)} models by configuration"
    return Chart("models", alt, caption, charts.layered(dots, 260, *layers))


def class_differences(document: CheckDocument, key: str) -> Chart | None:
    """Draw the difference to the baseline of every class, the largest gain first."""
    gaps = sorted(class_gaps(document, key), key=lambda pair: -pair[1])
    classes = document.per_class
    if not gaps or classes is None:
        return None
    count, shown = len(gaps), gaps
    if count > MANY_CLASSES:
        every = -(-count // MANY_CLASSES)
        shown = gaps[:EXTREMES] + gaps[EXTREMES:-EXTREMES:every] + gaps[-EXTREMES:]
    values = [
        {
            "class": charts.text_of(classes.names[at]),
            "place": place,
            "points": round(100 * gap, 2),
            "kind": "better" if gap > 0 else "worse" if gap < 0 else "equal",
        }
        for place, (at, gap) in enumerate(shown, 1)
    ]
    colours = {"better": KINDS["better"], "worse": KINDS["worse"], "equal": charts.GREY}
    told = tooltip(("class", "class"), ("points", "points"))
    names = [row["class"] for row in values]
    few = count <= FEW_CLASSES and len(set(names)) == count
    across: Spec = {"field": "place", "type": "ordinal", "title": "test classes, sorted", "axis": {
        "labels": False, "ticks": False}}  # fmt: skip
    if few:
        width = {"expr": "windowSize()[0] < 640 ? 110 : 260"}
        across = charts.nominal(
            "class",
            sort=names,
            axis={"labelLimit": width, "labelOverlap": False},
        )
    along = {"field": "points", "type": "quantitative", "title": "− baseline, points"}
    places = {"y": across, "x": along} if few else {"x": across, "y": along}
    colour = charts.coloured("kind", colours, legend=None)
    layer = {"mark": {"type": "bar"}, "encoding": {**places, "color": colour, "tooltip": told}}
    metric = formatting.metric_name(document.metric)
    caption = f"{metric} of each class, minus the baseline's." + (
        "" if few else " Pointing at a bar names its class."
    )
    if len(shown) < count:
        caption += f" {len(shown)} of {count:,} classes: evenly spaced ones, and all extremes."
    height = 15 * count + 10 if few else 220
    alt = f"Difference to the baseline of {count:,} classes: {names[0]} gains most, {names[-1]} least"
    return Chart("classes", alt, caption, charts.layered(values, height, layer), wide=True)


def class_gaps(document: CheckDocument, key: str) -> list[tuple[int, float]]:
    """Return (place of the class, its score − the baseline's) where both are known."""
    scores = document.per_class.scores if document.per_class else {}
    pairs = zip(scores.get(key, ()), scores.get(document.baseline or "", ()), strict=False)
    finite = ((at, say.known(score), say.known(base)) for at, (score, base) in enumerate(pairs))
    return [(at, score - base) for at, score, base in finite if score is not None and base is not None]


def distances(document: CheckDocument, main: ConfigurationResult | None) -> list[Chart]:
    """Draw the distances of pairs of one class and of two, of the main configuration and of the baseline."""
    keys = dict.fromkeys((main.key if main else "", document.baseline or ""))
    rows = {key: document.configuration(key) for key in keys}
    named = {row.name if row else key: document.distances[key] for key, row in rows.items()
             if key in document.distances}  # fmt: skip
    return distance_charts.histograms(named)


def colour_of(row: ConfigurationResult, at: int) -> str:
    return next((COLOURS[label] for label in row.labels if label in COLOURS), OTHERS[at % len(OTHERS)])
