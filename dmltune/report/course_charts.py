"""Figures of the course of a search: where trials were stopped, and what ran when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmltune.report import charts, formatting
from dmltune.report.charts import BLUE, GREY, PINK, Chart, Spec, quantity, tooltip
from dmltune.report.search_charts import STATES, TRIAL, percent, present, trial_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmltune.search.page_data import SearchPageData

MOST_SPANS = 2500  # later trials of longer searches are left out


def dropped(data: SearchPageData) -> Chart | None:
    """How many trials went on and how many ended at each step."""
    rows = [row for row in data.search.rows if row.state in ("complete", "pruned", "paused", "failed")]
    if not data.dropped and not data.failed:
        return None
    kinds = {"complete": "to the end", "pruned": "stopped", "paused": "paused", "failed": "failed"}
    colours = {"to the end": BLUE, "stopped": GREY, "paused": charts.SKY, "failed": PINK}
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        key = (row.step, kinds[row.state])
        counts[key] = counts.get(key, 0) + 1
    values = [{"step": step, "kind": kind, "trials": n} for (step, kind), n in sorted(counts.items())]
    encoding: Spec = {
        "x": {"field": "step", "type": "ordinal", "title": "ended at step", "axis": {"labelAngle": 0}},
        "y": {"field": "trials", "type": "quantitative", "title": "trials", "axis": {"tickMinStep": 1}},
        "color": charts.coloured("kind", present(values, "kind", colours)),
        "tooltip": tooltip(("step", "step"), ("kind", ""), ("trials", "trials")),
    }  # fmt: skip
    alt = "; ".join(f"{row['trials']} {row['kind']} at step {row['step']}" for row in values[:12])
    return Chart("dropped", alt, "", charts.layered(values, 190, {"mark": "bar", "encoding": encoding}))


def timeline(data: SearchPageData) -> Chart | None:
    """When each trial ran: trials at the same time are below each other."""
    spans = data.spans[:MOST_SPANS]
    if not spans:
        return None
    unit, seconds = unit_of(max(span.end for span in spans))
    places = lanes([(span.start, span.end) for span in spans])
    values = [
        {
            **trial_facts(data, span.record),
            "lane": lane + 1,
            "from": round(span.start / seconds, 3),
            "to": round(max(span.end, span.start) / seconds, 3),
            "time": formatting.clock(span.record.seconds),
        }
        for span, lane in zip(spans, places, strict=True)
    ]
    encoding: Spec = {
        "x": quantity("from", f"{unit} since the first trial began"),
        "x2": {"field": "to"},
        "y": {"field": "lane", "type": "ordinal", "title": "at the same time"},
        "color": charts.coloured("state", present(values, "state", STATES)),
        "tooltip": [*TRIAL[:2], *tooltip(("time", "took")), *TRIAL[2:]],
    }
    caption = "" if len(spans) == len(data.spans) else f"The first {len(spans)} of {len(data.spans)} trials."
    alt = f"When each of {len(spans)} trials ran"
    layer = {
        "mark": {"type": "bar", "opacity": 0.85, "stroke": "white", "strokeWidth": 0.3},
        "encoding": encoding,
    }
    height = min(420, 28 * (max(places) + 1) + 20)
    return Chart("timeline", alt, caption, charts.layered(values, height, layer))


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return for each span the first lane that is free at its start."""
    free: list[float] = []
    found = [0] * len(spans)
    for at in sorted(range(len(spans)), key=lambda place: spans[place]):
        start, end = spans[at]
        lane = next((number for number, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        found[at] = lane
    return found


def unit_of(seconds: float) -> tuple[str, float]:
    """Return the unit of an axis of time, and its seconds."""
    if seconds < 300:
        return "seconds", 1.0
    return ("minutes", 60.0) if seconds < 4 * 3600 else ("hours", 3600.0)


def outcome_rows(data: SearchPageData) -> list[tuple[str, str]]:
    """Return cost and time as names and values."""
    search, rows = data.search, data.search.rows
    facts = [("trials", f"{len(rows)}: {formatting.counts(rows)}")]
    if search.planned:
        facts.append(("planned", str(search.planned)))
    if search.started is not None and search.ended is not None:
        facts.append(("from first to last", formatting.clock(search.ended - search.started)))
    facts.append(("working time of all processes", formatting.clock(data.cost)))
    full = [row for row in rows if row.state == "complete"]
    if full:
        usual = sum(row.seconds for row in full) / len(full)
        facts.append(("a whole trial", f"{formatting.clock(usual)} on average"))
    early = [row for row in rows if row.state == "pruned" and row.max_steps]
    if early and full:
        saved = sum(1 - row.step / row.max_steps for row in early)
        facts.append(("spared by stopping early", f"the time of about {saved:.1f} whole trials"))
    if (best := percent(data.untrained)) is not None:
        facts.append((f"{formatting.metric_name(search.metric)} before training", f"{best:.1f} %"))
    return facts
