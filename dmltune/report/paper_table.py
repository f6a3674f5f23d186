"""A table of a paper in the terminal: every printed row, and ours below it. At most 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.check_sentences import p_text
from dmltune.report.terminal import grid, line, lines

Document = Mapping[str, Any]
THEIR_PROTOCOL = {
    "fair": "models chosen on held-out training classes",
    "tuning": "figures of validation classes, 1/5 of the training half; no test class is read",
    "conventional": "conventional protocol, theirs and ours: all training classes are trained on, and "
    "training is monitored and stopped on the test classes",
    "verification": "pairs of images of people",
    "facts": "",
}


def paper_table(document: Document) -> list[RenderableType]:
    """Return title, a block for each data set, gains over the baselines, notes, studies, a summary."""
    marks = _marks(document)
    parts: list[RenderableType] = ["", *lines(f"{document['source']}: {document['about']}", "bold")]
    if protocol := THEIR_PROTOCOL[document["protocol"]]:
        parts += lines(protocol, "bold red" if document["protocol"] == "conventional" else "dim")
    for data in document["data"]:
        parts += ["", *_block(document, data, marks)]
        for gain in document["gains"]:
            parts += _gain(gain) if gain["data"] == data["label"] else []
    parts.append("")
    for reason, mark in marks.items():
        parts += lines(f"{mark} {reason}", "dim", rest="    ")
    for note in [*_conventions(document), *document["notes"]]:
        parts += lines(f"· {note}", "dim", rest="  ")
    for study in document["studies"]:
        parts += _study(study)
    return [*parts, *lines(_summary(document))]


def _conventions(document: Document) -> list[str]:
    """Return how ours is made of its models, and the meaning of ±."""
    notes = []
    if document["folds"] and document["repeats"]:
        design = _design(document)
        which = ", of which the best is reported" if document["reported"] == "best" else ""
        notes.append(f"a row of theirs, and of ours: {design}{which}")
    if any(cell["spread"] is not None for cell in document["cells"]):
        notes.append("±: the standard deviation over all collections of one model of each fold")
    elif any(_half(cell) is not None for cell in document["cells"]):
        notes.append("± of ours: half of the 95 % confidence interval")
    return notes


def _block(document: Document, data: Document, marks: Mapping[str, str]) -> list[RenderableType]:
    """Return the printed rows, and below each ours when this data set has any results."""
    cells = [cell for cell in document["cells"] if cell["data"] == data["label"]]
    has_results = any(cell["ours"] is not None or cell["state"] == "failed" for cell in cells)
    heading = Text.assemble(line(data["label"], "bold"), line(f"   {_presence(data, has_results)}", "dim"))
    table = grid()
    table.add_column("%" if document["unit"] == "percent" else "", overflow="fold", max_width=30)
    for column in data["columns"]:
        table.add_column(line(column), justify="right")
    part = ""
    for row in document["rows"]:
        listed = [cell for cell in cells if cell["row"] == row["row"]]
        if not listed:
            continue
        if row["part"] != part:
            part = row["part"]
            table.add_row(line(part, "italic"))
        mark = "".join(f" {marks[row[key]]}" for key in ("cannot", "note") if row[key])
        theirs = [figure(cell["theirs"], cell["theirs_spread"], document) for cell in listed]
        table.add_row(line(f"{row['row']}{mark}"), *theirs)
        if has_results and not row["cannot"]:
            table.add_row(*map(line, _ours(listed, document)), style="green")
    return [heading, table]


def _ours(listed: Sequence[Document], document: Document) -> list[str]:
    """Return `ours, 12 models` and the figures, or the reason why there are none."""
    if all(cell["ours"] is None for cell in listed):
        return [f"  ours: {listed[0]['state']}"]
    partly = next((cell["reason"] for cell in listed if cell["state"] == "partly"), "")
    models = max(cell["models"] for cell in listed)
    count = partly or (f"{models} models" if models > 1 else "1 model" if models else "")
    name = f"  ours, {count}" if count else "  ours"
    return [name, *(figure(cell["ours"], _half(cell), document) for cell in listed)]


def figure(value: float | None, spread: float | None, document: Document) -> str:
    """0.6929 and 0.0011 → `69.29±0.11`, with as many digits as the paper prints; counts have none."""
    if value is None:
        return "–"
    if document["unit"] != "percent":
        return f"{value / 1000:,.0f}K" if document["unit"] == "thousand" else f"{value:,.0f}"
    digits = document["digits"]
    return f"{100 * value:.{digits}f}" + ("" if spread is None else f"±{100 * spread:.{digits}f}")


def _half(cell: Document) -> float | None:
    if cell["spread"] is not None:
        return float(cell["spread"])
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
    return [*lines(f"{gain['row']} over {gain['baseline']}, {metric}, points: {theirs}{ours}", rest="  ")]


def _study(study: Document) -> list[RenderableType]:
    """Return what was run, how it differs from the table's settings, and the first failures."""
    if study["state"] == "not run":
        return []
    design = f"{study['protocol']} protocol, {_design(study)}"
    origin = f"run {study['run_id']}, commit {study['commit']}, data {study['fingerprint']}"
    parts = [(f"{study['study']}: {design}, {origin}", "dim")]
    if study["changes"]:
        changes = formatting.parameters(study["changes"])
        parts.append((f"  not the table's settings: {changes}", "yellow"))
    if study.get("warning"):
        parts.append((f"  {study['warning']}", "bold red"))
    for member, reason in list((study["failed"] or {}).items())[:3]:
        parts.append((f"  {member} failed: {formatting.first_line(reason)}", "red"))
    return [part for text, style in parts for part in lines(text, style, rest="  ")]


def _design(counted: Document) -> str:
    """Return `4 folds × 1 repeat`."""
    nouns = [(counted["folds"], "fold"), (counted["repeats"], "repeat")]
    return " × ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in nouns)


def _presence(data: Document, has_results: bool) -> str:
    if data["missing"]:
        return f"{data['name']}: data missing" + ("" if has_results else ", not run")
    return data["name"] if has_results else f"{data['name']}: not run"


def _summary(document: Document) -> str:
    """`4 of 56 figures have ours; 52 not run (40 for want of data).`"""
    states = [cell["state"] for cell in document["cells"] if cell["theirs"] is not None]
    have = sum(state in ("done", "partly") for state in states)
    text = f"{have} of {len(states)} printed figures have ours beside them"
    names = {
        "not run": "not run",
        "data missing": "without their data",
        "failed": "failed",
        "not measured": "not measured by a check",
        "cannot": "not to be trained here",
    }
    rest = [f"{states.count(state)} {name}" for state, name in names.items() if state in states]
    return f"{text}; {', '.join(rest)}" if rest else text


def _marks(document: Document) -> dict[str, str]:
    """Return a letter for every remark about a row."""
    reasons = dict.fromkeys(row[key] for row in document["rows"] for key in ("cannot", "note") if row[key])
    return {reason: f"({'abcdefghijklmnopqrstuvwxyz'[place]})" for place, reason in enumerate(reasons)}
