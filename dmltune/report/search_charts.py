"""The figures of a search's page. Each function returns None where the search has nothing to draw.

Scores are in percent. A trial has the same colour in every figure: winner, reference point, baseline, others.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from dmltune.report import charts, formatting
from dmltune.report.charts import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, Chart, Spec, quantity, tooltip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmltune.search.page_data import SearchPageData
    from dmltune.search.state import Range, TrialRecord

ROLES = {
    "winner": GREEN,
    "reference point": YELLOW,
    "baseline": ORANGE,
    "repetition": SKY,
    "trial": BLUE,
    "cheap trial": GREY,
}
STATES = {"done": BLUE, "stopped early": GREY, "paused": SKY, "failed": PINK, "running": YELLOW}
SHAPES = {"done": "circle", "stopped early": "triangle-down", "paused": "square", "failed": "cross"}
MOST_CURVES, MOST_POINTS = 150, 2500
CROWDED = 300  # trials in one figure


def percent(score: float | None) -> float | None:
    """Return a finite score in percent with two digits."""
    return None if score is None or not math.isfinite(score) else round(100 * score, 2)


def role_of(data: SearchPageData, row: TrialRecord) -> str:
    if data.winner is not None and row.number == data.winner.number:
        return "winner"
    names = {
        "reference": "reference point",
        "baseline": "baseline",
        "repeat": "repetition",
        "cheap": "cheap trial",
    }
    return names.get(row.role, "trial")


def state_of(row: TrialRecord) -> str:
    names = {"complete": "done", "pruned": "stopped early", "interrupted": "running"}
    return names.get(row.state, row.state)


def trial_facts(data: SearchPageData, row: TrialRecord) -> dict[str, Any]:
    """Return what tooltips say of a trial."""
    values = row.values or (data.baseline_values if row.role == "baseline" else {})
    settings = formatting.parameters(values)
    if row.role == "repeat":
        settings = f"trial {row.repeats or 0} again, seed {row.seed}"
    state = state_of(row) + (" (untrained)" if row.untrained else "")
    return {
        "trial": row.number,
        "role": role_of(data, row),
        "state": state_of(row),
        "status": state,
        "score": percent(row.best),
        "settings": charts.text_of(settings),
    }


TRIAL = tooltip(
    ("trial", "trial"), ("role", "role"), ("score", "best %"), ("status", "state"), ("settings", "set")
)


def comparison(data: SearchPageData) -> Chart | None:
    """Winner, reference point and baseline: every training, their mean with interval, and the noise band."""
    named = (("winner", data.winner), ("reference point", data.reference), ("baseline", data.baseline))
    means, dots = [], []
    for name, row in named:
        found = data.scores_of(row)
        if row is None or found is None or (name == "reference point" and row is data.winner):
            continue
        mean, interval = found.mean, found.interval
        how = f"mean of {len(found.scores)}" if len(found.scores) > 1 else "one training"
        if name == "winner" and data.search.outcome is not None and data.search.outcome.corrected:
            corrected = data.search.outcome.corrected
            mean, interval, how = corrected.mean, corrected, "corrected for having been chosen"
        means.append({"name": name, **shown(mean), "how": how, **ends(interval)})
        dots += [{"name": name, "mean": percent(score), "how": "one training"} for score in found.scores]
    if not means:
        return None
    if data.untrained is not None:
        means.append({"name": "untrained", **shown(data.untrained), "how": "before the first step"})
    metric = formatting.metric_name(data.search.metric)
    order = [row["name"] for row in means]
    colour = charts.coloured("name", {**ROLES, "untrained": GREY}, legend=None)
    y = charts.nominal("name", sort=order)
    x = quantity("mean", f"{metric} on the validation classes, %")
    told = tooltip(("name", ""), ("mean", f"{metric} %"), ("low", "from"), ("high", "to"), ("how", "is"))
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 3}, "encoding": {"x2": {"field": "high"}, "color": colour,
         "x": quantity("low", x["title"])}, "transform": [{"filter": "isValid(datum.low)"}]},
        {"mark": {"type": "point", "size": 34, "filled": False, "opacity": 0.9},
         "data": {"values": dots}, "encoding": {"x": x, "color": colour, "tooltip": told}},
        {"mark": {"type": "point", "shape": "diamond", "filled": True, "size": 130, "opacity": 1},
         "encoding": {"x": x, "color": colour, "tooltip": told}},
        {"mark": {"type": "text", "dy": -13}, "encoding": {"x": x,
         "text": {"field": "text", "type": "nominal"}}},
    ]  # fmt: skip
    band = noise_band(data, x["title"])
    if band:
        layers.insert(0, band)
    caption = (
        "Diamonds: means with their 95 % intervals; the winner's is corrected for its having been the best "
        "of many. Circles: single trainings."
    )
    if band:
        caption += " Grey band: where another training of the baseline would fall in 95 % of cases."
    spec = charts.layered(means, 46 * len(means) + 20, *layers)
    spec["encoding"] = {"y": y}
    alt = "; ".join(f"{row['name']} {row['text']} %" for row in means)
    return Chart("comparison", f"Scores side by side: {alt}", caption, spec)


def shown(score: float) -> dict[str, Any]:
    """Return a score as a place, and as the text that the tables have: rounded once."""
    return {"mean": percent(score), "text": formatting.percent(score)}


def noise_band(data: SearchPageData, title: str) -> Spec | None:
    base = data.scores_of(data.baseline)
    if base is None or data.noise is None or data.noise.std == 0:
        return None
    low, high = (percent(base.mean + sign * 1.96 * data.noise.std) for sign in (-1, 1))
    encoding = {"x": quantity("from", title), "x2": {"field": "to"}, "y": None}
    mark = {"type": "rect", "color": GREY, "opacity": 0.18}
    return {"data": {"values": [{"from": low, "to": high}]}, "mark": mark, "encoding": encoding}


def ends(interval: Range | None) -> dict[str, float | None]:
    if interval is None:
        return {}
    return {"low": percent(interval.low), "high": percent(interval.high)}


def history(data: SearchPageData) -> Chart | None:
    """Every trial's best score, and the best of the complete points of the space so far."""
    scored = (row for row in data.search.rows if percent(row.best) is not None)
    rows = [row for row in scored if row.role != "cheap"]
    if not rows:
        return None
    values = named_last([trial_facts(data, row) for row in thinned(data, rows)])
    complete = [row for row in rows if row.state == "complete" and row.role in ("reference", "search")]
    pick = max if data.search.mode == "max" else min
    best = list(accumulate((percent(row.best) or 0.0 for row in complete), pick))
    steps = [
        {"trial": row.number, "best": score}
        for at, (row, score) in enumerate(zip(complete, best, strict=True))
        if at in (0, len(best) - 1) or score != best[at - 1]
    ]
    metric = formatting.metric_name(data.search.metric)
    encoding: Spec = {
        "x": quantity("trial", "trial", axis={"tickMinStep": 1, "format": "d"}),
        "y": quantity("score", f"{metric} on the validation classes, %"),
        "color": charts.coloured("role", present(values, "role", ROLES)),
        "shape": shape(values),
        "tooltip": TRIAL,
    }
    encoding |= sizes(len(values))
    layers: list[Spec] = [{"mark": {"type": "point"}, "encoding": encoding}]
    if steps:
        line = {"x": encoding["x"], "y": {**encoding["y"], "field": "best"}}
        mark = {"type": "line", "interpolate": "step-after", "color": GREEN, "opacity": 0.6}
        layers.insert(0, {"data": {"values": steps}, "mark": mark, "encoding": line})
    caption = "Line: the best complete trial so far. Triangles were stopped before their end."
    return Chart("history", f"The score of each of {len(rows)} trials in their order", caption,
                 charts.layered(values, 260, *layers), wide=True)  # fmt: skip


def named_last(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return winner, reference point and baseline behind the others, so that they are drawn above them."""
    ranks = {role: place for place, role in enumerate(("trial", "repetition", "baseline", "reference point"))}
    return sorted(values, key=lambda row: ranks.get(row["role"], len(ranks)))


def sizes(count: int) -> Spec:
    """Return the channels of marks: of many trials they are small and pale, the named ones never."""
    named = "indexof(['winner', 'reference point', 'baseline'], datum.role) >= 0"
    many = count > CROWDED
    return {
        "size": {"condition": {"test": named, "value": 110 if many else 80}, "value": 16 if many else 50},
        "opacity": {"condition": {"test": named, "value": 1}, "value": 0.45 if many else 0.85},
        "strokeWidth": {"condition": {"test": named, "value": 3}, "value": 1.5},
    }


def present(values: Sequence[dict[str, Any]], key: str, colours: dict[str, str]) -> dict[str, str]:
    """Return the colours of the names that occur."""
    names = {row[key] for row in values}
    return {name: colour for name, colour in colours.items() if name in names}


def shape(values: Sequence[dict[str, Any]]) -> Spec:
    names = present(values, "state", SHAPES | {"running": "stroke"})
    scale = {"domain": list(names), "range": list(names.values())}
    return charts.nominal("state", None, scale=scale, legend=None if len(names) < 2 else {})


def thinned(data: SearchPageData, rows: Sequence[TrialRecord], most: int = MOST_POINTS) -> list[TrialRecord]:
    """Return at most about `most` rows: the better half of them, the named ones, and evenly spaced others."""
    rows = list(rows)
    if len(rows) <= most:
        return rows
    sign = -1 if data.search.mode == "max" else 1
    ranked = sorted(rows, key=lambda row: (row.best is None, sign * (row.best or 0.0), row.number))
    half = most // 2
    every = math.ceil((len(ranked) - half) / half)
    chosen = {row.number for row in (*ranked[:half], *ranked[half::every])}
    chosen |= {row.number for row in rows if row.role in ("reference", "baseline")}
    return [row for row in rows if row.number in chosen]


def curves(data: SearchPageData) -> Chart | None:
    """Learning curves: winner, reference point and baseline in colour, the others pale."""
    found = [curve for curve in data.curves if len(curve.points) > 1 and curve.record.role != "cheap"]
    by_number = {curve.record.number: curve for curve in found}
    rows = thinned(data, [curve.record for curve in by_number.values()], MOST_CURVES)
    lines, jumps, last = [], [], []
    for row in rows:
        curve, facts = by_number[row.number], trial_facts(data, row)
        short = {key: facts[key] for key in ("trial", "role", "state")}
        points = [{**short, "step": step, "value": percent(score)} for step, score in curve.points]
        points = [point for point in points if point["value"] is not None]
        lines += points
        last += [{**facts, **point} for point in points[-1:]]
        if facts["role"] != "trial":
            at = {point["step"]: point for point in points}
            jumps += [at[step] for step in curve.projections if step in at]
    if not lines:
        return None
    metric = formatting.metric_name(data.search.metric)
    named = {
        "condition": {"test": "datum.role == 'trial' || datum.role == 'repetition'", "value": 0.28},
        "value": 1,
    }
    x, y = quantity("step", "step"), quantity("value", f"{metric} on the validation classes, %")
    colour = charts.coloured("role", present(lines, "role", ROLES))
    told = tooltip(("trial", "trial"), ("role", "role"), ("step", "step"), ("value", f"{metric} %"))
    width = {
        "condition": {"test": "datum.role == 'trial' || datum.role == 'repetition'", "value": 1},
        "value": 2.5,
    }
    shared = {"x": x, "y": y, "color": colour, "detail": {"field": "trial"}}
    layers: list[Spec] = [
        {"mark": {"type": "line"}, "encoding": {**shared, "opacity": named, "strokeWidth": width}},
        {"mark": {"type": "point", "filled": True, "size": 26}, "encoding": {
            **shared, "opacity": named, "tooltip": told}},
        {"data": {"values": last}, "mark": {"type": "point", "size": 60, "filled": False}, "encoding": {
            **shared, "shape": shape(last), "tooltip": [*TRIAL, *told[2:3]]}},
    ]  # fmt: skip
    stops = [{"step": each.step, "text": f"{each.trials} stopped here"} for each in data.dropped]
    if stops:
        rule = {"type": "rule", "strokeDash": [3, 4], "color": GREY, "opacity": 0.8}
        told = tooltip(("step", "step"), ("text", "trials"))
        layers.insert(0, {"data": {"values": stops}, "mark": rule, "encoding": {"x": x, "tooltip": told}})
    if jumps:
        mark = {"type": "point", "shape": "diamond", "filled": True, "size": 90, "color": PINK}
        told = tooltip(("trial", "trial"), ("step", "a projection ended before step"))
        encoding = {"x": x, "y": y, "tooltip": told}
        layers.append({"data": {"values": jumps}, "mark": mark, "encoding": encoding})
    caption = (
        f"Learning curves of {len(rows)} of {len(by_number)} trials." if len(rows) < len(by_number) else ""
    )
    caption += " Dashed: steps at which trials were stopped." if stops else ""
    caption += (
        " Pink diamonds: a projection of chance-constrained training ended and proxies were chosen anew."
        if jumps
        else ""
    )
    alt = f"The score of {len(rows)} trials over their training steps"
    return Chart("curves", alt, caption.strip(), charts.layered(lines, 300, *layers), wide=True)
