"""Figures of a search beyond its score: costs and the front, cheap trainings, geometry over projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmltune.report import charts, formatting
from dmltune.report.charts import GREEN, PINK, Chart, Spec, quantity, tooltip
from dmltune.report.check_page_tables import Cell, PageTable
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

MOST_MEMBERS = 12


def fronts(data: SearchPageData) -> list[Chart | None]:
    """Return the score over each cost: all trials, and the staircase of those that no other one beats."""
    front = data.search.front
    if front is None:
        return []
    return [_front(data, cost) for cost in front.against]


def _front(data: SearchPageData, cost: str) -> Chart | None:
    front = data.search.front
    assert front is not None
    rows = [row for row in data.search.points() if cost in row.costs and percent(row.best) is not None]
    if not rows:
        return None
    values = named_last([{**trial_facts(data, row), "cost": row.costs[cost]} for row in thinned(data, rows)])
    members: list[dict[str, Any]] = []
    pick = max if data.search.mode == "max" else min
    for member in sorted(front.members, key=lambda each: each.costs[cost]):
        score = percent(member.score) or 0.0
        best = pick(score, members[-1]["score"]) if members else score
        knee = "knee" if member.trial == front.knee else "front"
        if not members or best != members[-1]["score"] or knee == "knee":
            members.append({"trial": member.trial, "cost": member.costs[cost], "score": best, "is": knee})
    metric = formatting.metric_name(data.search.metric)
    name = formatting.COSTS[cost][1]
    x, y = quantity("cost", name), quantity("score", f"{metric} on the validation classes, %")
    told = [*TRIAL[:3], *tooltip(("cost", name)), *TRIAL[3:]]
    points: Spec = {
        "x": x,
        "y": y,
        "color": charts.coloured("role", present(values, "role", ROLES)),
        "shape": shape(values),
        "tooltip": told,
        **sizes(len(values)),
    }
    mark = {"type": "line", "interpolate": "step-after", "color": GREEN, "strokeWidth": 2.5}
    knees = [row for row in members if row["is"] == "knee"]
    ring = {"type": "point", "size": 260, "color": PINK, "strokeWidth": 2.5, "filled": False}
    layers: list[Spec] = [
        {"data": {"values": members}, "mark": mark, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "point"}, "encoding": points},
    ]
    if knees:
        layers.append({"data": {"values": knees}, "mark": ring, "encoding": {
            "x": x, "y": y, "tooltip": tooltip(("trial", "knee: trial"), ("cost", name))}})  # fmt: skip
    caption = "Line: the best score at this cost or less."
    caption += " Ring: the knee, beyond which a little more score costs much." if knees else ""
    alt = f"{metric} of {len(rows)} trials over {name}; the front has {len(front.members)} trials"
    return Chart(f"front-{cost}", alt, caption, charts.layered(values, 280, *layers))


def front_table(data: SearchPageData) -> PageTable | None:
    """The trials that no other one beats, the best score first."""
    front = data.search.front
    if front is None:
        return None
    metric = formatting.metric_name(data.search.metric)
    rows: list[list[str | Cell]] = []
    for member in front.members[:MOST_MEMBERS]:
        low, high = (member.interval.low, member.interval.high) if member.interval else (None, None)
        spread = f"{formatting.percent(low)} to {formatting.percent(high)}" if member.interval else "–"
        values = data.search.row(member.trial).values
        rows.append([
            Cell(f"trial {member.trial}", note="knee" if member.trial == front.knee else ""),
            formatting.percent(member.score),
            spread,
            *(formatting.value(member.costs[name]) for name in front.against),
            Cell(formatting.parameters(values), "code"),
        ])  # fmt: skip
    names = [formatting.COSTS[name][1] for name in front.against]
    headings = ["", f"{metric} %", "95 % interval", *names, "set"]
    return PageTable(headings, rows, range(1, 3 + len(names)))


def fidelity(data: SearchPageData) -> Chart | None:
    """Points that were trained both ways: the full score over the cheap one."""
    values = [
        {"trial": full.number, "cheap": percent(cheap.best), "full": percent(full.best)}
        for cheap, full in data.trained_both_ways
        if percent(cheap.best) is not None and percent(full.best) is not None
    ]
    if not values:
        return None
    metric = formatting.metric_name(data.search.metric)
    encoding: Spec = {
        "x": quantity("cheap", f"{metric} of the cheap training, %"),
        "y": quantity("full", f"{metric} of the full one, %"),
        "tooltip": tooltip(("trial", "trial"), ("cheap", "cheap %"), ("full", "full %")),
    }
    mark = {"type": "point", "filled": True, "size": 90, "color": charts.BLUE}
    label = {"mark": {"type": "text", "dx": 10, "align": "left"}, "encoding": {
        "x": encoding["x"], "y": encoding["y"], "text": {"field": "trial"}}}  # fmt: skip
    alt = f"Full and cheap scores of {len(values)} points"
    caption = (
        "Points that were trained both ways, with the number of their trial. Cheap trainings are used when "
        "both orders agree."
    )
    layers = [{"mark": mark, "encoding": encoding}, label]
    return Chart("fidelity", alt, caption, charts.layered(values, 260, *layers))


def geometry(data: SearchPageData) -> Chart | None:
    """The covering radius over the steps, with the projections of chance-constrained training."""
    named = (("winner", data.winner), ("reference point", data.reference), ("baseline", data.baseline))
    values: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for name, row in named:
        if row is None or (name == "reference point" and row is data.winner):
            continue
        before = None
        for point in data.measured(row):
            if "covering_radius" not in point:
                continue
            values.append({"role": name, "trial": row.number, "step": int(point["step"]),
                           "radius": round(point["covering_radius"], 4)})  # fmt: skip
            projection = point.get("projection")
            if before is not None and projection is not None and projection > before:
                ends.append({**values[-1], "projection": int(projection)})
            before = projection if projection is not None else before
    if len({row["step"] for row in values}) < 2:
        return None
    x, y = quantity("step", "step"), quantity("radius", "covering radius of the validation classes")
    shared: Spec = {"x": x, "y": y, "color": charts.coloured("role", present(values, "role", ROLES))}
    told = tooltip(("trial", "trial"), ("role", "role"), ("step", "step"), ("radius", "covering radius"))
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 2.5}, "encoding": shared},
        {"mark": {"type": "point", "filled": True, "size": 40}, "encoding": {**shared, "tooltip": told}},
    ]
    if ends:
        mark = {"type": "point", "shape": "diamond", "filled": True, "size": 90, "color": PINK}
        more = [*told, *tooltip(("projection", "in projection"))]
        layers.append({"data": {"values": ends}, "mark": mark, "encoding": {"x": x, "y": y, "tooltip": more}})
    caption = "How far the images of a class lie from few of them, averaged: small for compact classes."
    if ends:
        caption += " Pink diamonds: the first validation of another projection, with proxies chosen anew."
    alt = f"Covering radius over {len({row['step'] for row in values})} validations"
    return Chart("geometry", alt, caption, charts.layered(values, 260, *layers), wide=True)
