"""A table of a paper in the terminal: every printed line, and ours below it. At most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.check_sentences import p_text

WIDTH = 80
Document = Mapping[str, Any]
THEIR_PROTOCOL = {
    "fair": "models chosen on held-out training classes",
    "tuning": "figures of validation classes, 1/5 of the training half",
    "conventional": "theirs: conventional protocol, all training classes and no validation classes",
    "verification": "pairs of images of people",
    "facts": "",
}


def paper_table(document: Document) -> list[RenderableType]:
    """Title, a block for each data set, gains over the baselines, what was run, what was not and why."""
    marks = _marks(document)
    parts: list[RenderableType] = ["", *_lines(f"{document['source']}: {document['about']}", "bold")]
    if protocol := THEIR_PROTOCOL[document["protocol"]]:
        parts += _lines(protocol, "bold red" if document["protocol"] == "conventional" else "dim")
    for data in document["data"]:
        parts += ["", *_block(document, data, marks)]
        parts += [line for gain in document["gains"] if gain["data"] == data["label"] for line in _gain(gain)]
    parts.append("")
    parts += [line for reason, mark in marks.items() for line in _lines(f"{mark} {reason}", "dim", "    ")]
    parts += [line for note in document["notes"] for line in _lines(f"· {note}", "dim", "  ")]
    parts += [line for study in document["studies"] for line in _study(study)]
    return [*parts, *_lines(_summary(document))]


def _block(document: Document, data: Document, marks: Mapping[str, str]) -> list[RenderableType]:
    """Theirs, and below it ours where there is anything to say about it."""
    mine = [cell for cell in document["cells"] if cell["data"] == data["label"]]
    rows = [row for row in document["rows"] if any(cell["row"] == row["row"] for cell in mine)]
    something = any(cell["ours"] is not None or cell["state"] == "failed" for cell in mine)
    heading = Text.assemble((data["label"], "bold"), (f"   {_presence(data, something)}", "dim"))
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("%" if document["unit"] == "percent" else "", overflow="fold", max_width=30)
    for column in data["columns"]:
        grid.add_column(column, justify="right")
    part = ""
    for row in rows:
        listed = [cell for cell in mine if cell["row"] == row["row"]]
        if row["part"] != part:
            part = row["part"]
            grid.add_row(Text(part, style="italic"))
        mark = "".join(f" {marks[row[why]]}" for why in ("cannot", "note") if row[why])
        theirs = [figure(cell["theirs"], cell["theirs_spread"], document) for cell in listed]
        grid.add_row(f"{row['row']}{mark}", *theirs)
        if something and not row["cannot"]:
            grid.add_row(*_ours(listed, document), style="green")
    return [heading, grid]


def _ours(listed: Sequence[Document], document: Document) -> list[str]:
    """`ours, 12 models` and the figures, or what there is instead of them."""
    if all(cell["ours"] is None for cell in listed):
        return [f"  ours: {listed[0]['state']}"]
    partly = next((cell["reason"] for cell in listed if cell["state"] == "partly"), "")
    models = max(cell["models"] for cell in listed)
    count = partly or (f"{models} models" if models > 1 else "1 model" if models else "")
    name = f"  ours, {count}" if count else "  ours"
    return [name, *(figure(cell["ours"], _half(cell), document) for cell in listed)]


def figure(value: float | None, spread: float | None, document: Document) -> str:
    """0.6929 and 0.0011 → `69.29±0.11`, with as many digits as the print has; counts without."""
    if value is None:
        return "–"
    if document["unit"] != "percent":
        return f"{value / 1000:,.0f}K" if document["unit"] == "thousand" else f"{value:,.0f}"
    digits = document["digits"]
    return f"{100 * value:.{digits}f}" + ("" if spread is None else f"±{100 * spread:.{digits}f}")


def _half(cell: Document) -> float | None:
    return None if cell["low"] is None or cell["high"] is None else (cell["high"] - cell["low"]) / 2


def _gain(gain: Document) -> list[RenderableType]:
    """`C2+CCP-L over C2: theirs +1.66, ours +1.20 (95 % CI -0.30 to +2.70, p = 0.11)`."""
    theirs = "" if gain["theirs"] is None else f"theirs {100 * gain['theirs']:+.2f}, "
    if gain["ours"] is None:
        return []
    ours = f"ours {100 * gain['ours']:+.2f}"
    if gain["low"] is not None and gain["high"] is not None:
        p = "" if gain["p"] is None else f", p {p_text(gain['p'])}"
        ours += f" (95 % CI {100 * gain['low']:+.2f} to {100 * gain['high']:+.2f}{p})"
    metric = formatting.metric_name(gain["metric"])
    return _lines(f"{gain['row']} over {gain['baseline']}, {metric}, points: {theirs}{ours}", "", "  ")


def _study(study: Document) -> list[RenderableType]:
    """What was run, and how it differs from the table's settings."""
    if study["state"] == "not run":
        return []
    design = f"{study['protocol']} protocol, {study['folds']} folds × {study['repeats']} repeats"
    made = f"run {study['run_id']}, commit {study['commit']}, data {study['fingerprint']}"
    lines = _lines(f"{study['study']}: {design}, {made}", "dim", "  ")
    if study["changes"]:
        lines += _lines(
            f"  not the table's settings: {formatting.parameters(study['changes'])}", "yellow", "  "
        )
    if study.get("warning"):
        lines += _lines(f"  {study['warning']}", "bold red", "  ")
    for member, reason in list((study["failed"] or {}).items())[:3]:
        lines += _lines(f"  {member} failed: {formatting.first_line(reason)}", "red", "  ")
    return lines


def _presence(data: Document, something: bool) -> str:
    if data["missing"]:
        return f"{data['name']}: data missing" + ("" if something else ", not run")
    return data["name"] if something else f"{data['name']}: data found, not run"


def _summary(document: Document) -> str:
    """`4 of 56 figures have ours; 52 not run (40 for want of data).`"""
    states = [cell["state"] for cell in document["cells"] if cell["theirs"] is not None]
    have = sum(state in ("done", "partly") for state in states)
    text = f"{have} of {len(states)} printed figures have ours beside them"
    rest = [
        f"{states.count(state)} {word}"
        for state, word in (
            ("not run", "not run"),
            ("data missing", "without their data"),
            ("failed", "failed"),
            ("not measured", "not measured by a check"),
            ("cannot", "not to be trained here"),
        )
        if state in states
    ]
    return f"{text}; {', '.join(rest)}" if rest else text


def _marks(document: Document) -> dict[str, str]:
    reasons = dict.fromkeys(row[why] for row in document["rows"] for why in ("cannot", "note") if row[why])
    return {reason: f"({'abcdefghijklmnopqrstuvwxyz'[place]})" for place, reason in enumerate(reasons)}


def _lines(text: str, style: str = "", indent: str = "") -> list[RenderableType]:
    wrapped: Iterable[str] = textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return [Text(line, style=style) for line in wrapped]
