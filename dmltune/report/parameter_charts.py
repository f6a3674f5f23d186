"""Figures of the searched parameters: importances, score over each, all at once, and the surface over two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dmltune.report import charts, formatting
from dmltune.report.charts import BLUE, Chart, Spec, quantity, tooltip
from dmltune.report.search_charts import (
    ROLES,
    TRIAL,
    named_last,
    percent,
    present,
    shape,
    sizes,
    thinned,
    trial_facts,
)

if TYPE_CHECKING:
    from dmltune.search.page_data import SearchPageData
    from dmltune.search.surface import SurfaceAxis

POINTS = ("reference", "search")
WIDE_RANGE = 30  # a positive range with a larger ratio has a logarithmic axis
MOST_PARAMETERS, MOST_LINES, MOST_TICKS = 9, 400, 10


def importances(data: SearchPageData) -> Chart | None:
    found = data.importances
    if found is None:
        return None
    names = formatting.short_names(row.name for row in found.parameters)
    rest = "interactions" if found.noise_known else "interactions and noise"
    values = [
        {"name": name, "share": 100 * row.share, "low": 100 * row.low, "high": 100 * row.high}
        for name, row in [*((names[row.name], row) for row in found.parameters), (rest, found.rest)]
    ]
    values = [{key: round(v, 1) if isinstance(v, float) else v for key, v in row.items()} for row in values]
    y = charts.nominal("name", sort=[row["name"] for row in values])
    scale = {"domain": [0, 100]}
    title = "share of the variance of the rank, %"
    told = tooltip(("name", ""), ("share", "share %"), ("low", "from"), ("high", "to"))
    layers: list[Spec] = [
        {"mark": {"type": "bar", "color": BLUE, "opacity": 0.75}, "encoding": {
            "x": {**quantity("share", title), "scale": scale}, "tooltip": told}},
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {
            "x": {**quantity("low", title), "scale": scale}, "x2": {"field": "high"}, "tooltip": told}},
    ]  # fmt: skip
    spec = charts.layered(values, 26 * len(values) + 10, *layers, encoding={"y": y})
    alt = "Importance of each parameter: " + ", ".join(f"{row['name']} {row['share']} %" for row in values)
    caption = "Bar: the share that the parameter causes alone over its whole range. Line: its 95 % interval."
    return Chart("importances", alt, f"{caption} {found.warning}".strip(), spec)


def ordered(data: SearchPageData) -> list[str]:
    """Return the parameters that took more than one value, the most important first."""
    seen: dict[str, set[str]] = {}
    for row in data.search.points():
        for key, value in row.values.items():
            seen.setdefault(key, set()).add(str(value))
    varied = [key for key, values in seen.items() if len(values) > 1]
    ranked = [row.name for row in data.importances.parameters] if data.importances else []
    return sorted(varied, key=lambda key: ranked.index(key) if key in ranked else len(ranked))


def is_numeric(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def is_log(values: list[Any]) -> bool:
    return bool(min(values) > 0 and max(values) >= WIDE_RANGE * min(values))


def parameters(data: SearchPageData) -> list[Chart]:
    """Return the score over each parameter, the most important first."""
    metric = formatting.metric_name(data.search.metric)
    keys = ordered(data)[:MOST_PARAMETERS]
    names, figures = formatting.short_names(keys), []
    scored = [row for row in data.search.points() if percent(row.best) is not None]
    for key in keys:
        rows = thinned(data, [row for row in scored if key in row.values], 800)
        raw = [row.values[key] for row in rows]
        numeric = is_numeric(raw)
        values = [
            {**trial_facts(data, row), "value": item if numeric else charts.text_of(item)}
            for row, item in zip(rows, raw, strict=True)
        ]
        x: Spec = charts.nominal("value", names[key])
        if numeric:
            x = quantity("value", names[key], **numeric_axis(raw))
        encoding = {
            "x": x,
            "y": quantity("score", f"{metric} %"),
            "color": charts.coloured("role", present(values, "role", ROLES), legend=None),
            "shape": {**shape(values), "legend": None},
            "tooltip": [*tooltip(("value", names[key])), *TRIAL],
        }
        layer = {"mark": {"type": "point"}, "encoding": {**encoding, **sizes(len(values))}}
        spec = charts.layered(named_last(values), 190, layer)
        slug = "".join(letter if letter.isalnum() else "-" for letter in names[key])
        alt = f"Score of {len(rows)} trials over {names[key]}"
        figures.append(Chart(f"parameter-{slug}", alt, "", spec))
    return figures


def numeric_axis(values: list[Any]) -> Spec:
    if is_log(values):
        return {"scale": {"type": "log"}, "axis": charts.decades(min(values), max(values))}
    axis: Spec = {"labelOverlap": True}
    if all(isinstance(value, int) for value in values):
        few = max(values) - min(values) <= MOST_TICKS  # Vega's own ticks would be 4.0, 4.5, 5.0
        axis |= {"values": list(range(min(values), max(values) + 1)), "format": "d"} if few else {}
    return {"axis": axis}


def parallel(data: SearchPageData) -> Chart | None:
    """Return a line for each trial through its values and its score."""
    keys = ordered(data)[:MOST_PARAMETERS]
    rows = [row for row in data.search.points() if percent(row.best) is not None]
    if not keys or len(rows) < 2:
        return None
    sign = -1 if data.search.mode == "max" else 1
    ranked = sorted(rows, key=lambda row: (sign * (row.best or 0.0), row.number))
    rank = {row.number: at + 1 for at, row in enumerate(ranked)}
    shown = thinned(data, rows, MOST_LINES)
    metric = f"{formatting.metric_name(data.search.metric)} %"
    names = formatting.short_names(keys)
    axes = [axis_of([row.values.get(key) for row in shown]) for key in keys]
    axes.append(axis_of([percent(row.best) for row in shown]))
    labels = [*(names[key] for key in keys), metric]
    lines, ticks = [], []
    for label, (_, ends) in zip(labels, axes, strict=True):
        ticks += [{"axis": label, "place": at, "text": text} for at, text in ends]
    for row in shown:
        facts = trial_facts(data, row)
        items = [*(row.values.get(key) for key in keys), percent(row.best)]
        for label, item, (place, _) in zip(labels, items, axes, strict=True):
            if item is not None:
                lines.append({**facts, "rank": rank[row.number], "axis": label, "place": place(item)})
    spec = parallel_spec(lines, ticks, labels, len(rows), metric)
    alt = f"{len(shown)} trials as lines through {', '.join(labels)}"
    caption = (
        "A line is a trial. The slider leaves the best trials; a line shows its values when it is pointed at."
    )
    if len(shown) < len(rows):
        caption += f" {len(shown)} of {len(rows)} trials: the better half of them and a sample of the others."
    return Chart("parallel", alt, caption, spec, wide=True)


def parallel_spec(lines: list[Spec], ticks: list[Spec], labels: list[str], count: int, metric: str) -> Spec:
    narrow = f"width < {90 * len(labels)}"  # labels would overlap
    axis = {
        "labelAngle": {"expr": f"{narrow} ? -35 : 0"},
        "labelAlign": {"expr": f"{narrow} ? 'right' : 'center'"},
        "domain": False,
        "grid": True,
        "labelPadding": 10,
    }
    x = charts.nominal("axis", sort=labels, axis=axis, scale={"type": "point", "padding": 0.3})
    y = {"field": "place", "type": "quantitative", "axis": None, "scale": {"domain": [-0.04, 1.04]}}
    # without the darkest and the palest colours: lines are seen on a dark page and on a white one
    scheme = {"name": "viridis", "extent": [0.3, 0.95]}
    colour = quantity("score", metric, scale={"scheme": scheme}, legend={"gradientLength": 160})
    near = {"param": "near", "empty": False}
    point = {"type": "point", "fields": ["trial"], "on": "pointerover", "clear": "pointerout"}
    winner = {"test": "datum.role == 'winner'", "value": 1}
    line: Spec = {
        "params": [{"name": "near", "select": point}],
        "transform": [{"filter": f"datum.rank <= max(2, kept * {count} / 100)"}],
        "mark": {"type": "line", "strokeJoin": "round"},
        "encoding": {
            "x": x,
            "y": y,
            "color": colour,
            "detail": {"field": "trial"},
            "tooltip": TRIAL,
            "strokeWidth": {"condition": {**near, "value": 4}, "value": 1.6},
            "opacity": {"condition": [{**near, "value": 1}, winner], "value": 0.55},
        },
    }
    mark = {"type": "text", "fontSize": 11, "dx": 4, "align": "left"}
    text: Spec = {
        "data": {"values": ticks},
        "mark": mark,
        "encoding": {"x": x, "y": y, "text": {"field": "text"}},
    }
    bind = {"input": "range", "min": 2, "max": 100, "step": 1, "name": "best % of the trials "}
    return charts.layered(lines, 300, line, text, params=[{"name": "kept", "value": 100, "bind": bind}])


def axis_of(items: list[Any]) -> tuple[Any, list[tuple[float, str]]]:
    """Return the function from a value to its place between 0 and 1, and the labels of the axis."""
    known = [item for item in items if item is not None]
    if not is_numeric(known):
        names = sorted({charts.text_of(item) for item in known})
        last = max(1, len(names) - 1)
        return (
            lambda item: names.index(charts.text_of(item)) / last,
            [(at / last, name) for at, name in enumerate(names)],
        )
    log = is_log(known)
    numbers = [math.log(item) if log else float(item) for item in known]
    low, high = min(numbers), max(numbers)
    width = (high - low) or 1.0
    shown = [(0.0, formatting.value(min(known))), (1.0, formatting.value(max(known)))]
    return lambda item: round(((math.log(item) if log else item) - low) / width, 4), shown


def surface(data: SearchPageData) -> Chart | None:
    found = data.surface
    if found is None:
        return None
    names = formatting.short_names([found.x.name, found.y.name])
    cells = [
        {**bounds(found.x, i, "x"), **bounds(found.y, j, "y"), "score": round(100 * found.score[i][j], 2)}
        for i in range(len(found.x.values))
        for j in range(len(found.y.values))
    ]
    rows = {row.number: row for row in data.search.rows}
    points = [
        {**trial_facts(data, rows[number]), "x": cell(found.x, x), "y": cell(found.y, y)}
        for number, x, y, _ in found.points[:800]
    ]
    x, y = (side(axis, channel, names[axis.name]) for axis, channel in ((found.x, "x"), (found.y, "y")))
    metric = f"{formatting.metric_name(data.search.metric)} %"
    colour = quantity("score", metric, scale={"scheme": "viridis"}, legend={"gradientLength": 160})
    told = tooltip(
        ("shown_x", names[found.x.name]), ("shown_y", names[found.y.name]), ("score", "expected %")
    )
    second = {f"{c}2": {"field": f"{c}2"} for c, a in (("x", found.x), ("y", found.y)) if a.edges}
    layers: list[Spec] = [
        {"data": {"values": cells}, "mark": {"type": "rect"}, "encoding": {
            "x": x, "y": y, **second, "color": colour, "tooltip": told}},
        {"data": {"values": points}, "mark": {"type": "point", "filled": True, "size": 60, "stroke": "white",
            "strokeWidth": 1.2, "opacity": 1}, "encoding": {"x": x, "y": y, "color": colour,
            "size": {"condition": {"test": "datum.role == 'winner'", "value": 190}, "value": 55},
            "shape": {"condition": {"test": "datum.role == 'winner'", "value": "diamond"}, "value": "circle"},
            "tooltip": TRIAL}},
    ]  # fmt: skip
    caption = (
        "Colour of the ground: the score that a Gaussian process of all parameters expects, averaged over "
        "the other values that trials had. Dots: the trials with their own scores; the diamond is the winner."
    )
    alt = f"Expected score over {names[found.x.name]} and {names[found.y.name]}, with the trials on it"
    return Chart("surface", alt, caption, charts.layered([], 300, *layers), wide=True)


def bounds(axis: SurfaceAxis, at: int, channel: str) -> dict[str, Any]:
    """Return the place of a cell on one axis, and its value as text."""
    text = {f"shown_{channel}": formatting.value(axis.values[at])}
    if not axis.edges:
        return {channel: charts.text_of(axis.values[at]), **text}
    return {channel: axis.edges[at], f"{channel}2": axis.edges[at + 1], **text}


def cell(axis: SurfaceAxis, value: Any) -> Any:
    return value if axis.edges else charts.text_of(value)


def side(axis: SurfaceAxis, channel: str, title: str) -> Spec:
    if not axis.edges:
        return charts.nominal(channel, title)
    low, high = axis.edges[0], axis.edges[-1]
    scale: Spec = {"domain": [low, high], "nice": False, **({"type": "log"} if axis.log else {})}
    ticks: Spec = charts.decades(low, high) if axis.log else {"labelOverlap": True}
    return quantity(channel, title, scale=scale, axis={"grid": False, **ticks})
