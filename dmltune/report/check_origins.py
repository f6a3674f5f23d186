"""Where the figures of a check's page come from: who opened the test classes, which runs, which code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmltune.report import check_sentences as say
from dmltune.report import formatting
from dmltune.report.markup import Markup, element, joined, table

FEW_MODELS = 24  # more are folded away


def openings(document: Mapping[str, Any]) -> Markup:
    """The ledger's lines of this study, oldest first."""
    entries = document.get("openings") or []
    rows = [
        [
            say.clock_time(entry.get("time", "")),
            joined(
                str(entry.get("kind", "")), element("br"), element("span", entry.get("why"), class_="soft")
            ),
            str(entry.get("who", "")),
            element("span", str(entry.get("command", "")), class_="code"),
            element("span", str(entry.get("commit") or "")[:12], class_="code"),
        ]
        for entry in entries
    ]
    if document.get("again"):
        text = (
            "Figures of this study's test classes had been seen before this check. Whatever was chosen after "
            "that may have been chosen by them."
        )
    else:
        later = sum(entry.get("kind") == "shown again" for entry in entries)
        text = "Nobody had seen figures of this study's test classes before this check."
        text += f" Its table was looked at again {later} times." if later > 1 else ""
        text += " Its table was looked at again once." if later == 1 else ""
    return joined(
        element("h2", "Who opened the test classes"),
        element("p", text),
        table(["when (UTC)", "what for", "who", "command", "commit"], rows) if rows else None,
    )


def made(document: Mapping[str, Any]) -> Markup:
    """Data, code, versions, every model with its run, and what failed."""
    versions: Mapping[str, Any] = document.get("versions") or {}
    facts = {
        "search": document.get("search"),
        "data": f"{document['data']}, fingerprint {document['fingerprint']}",
        "commit": document.get("commit"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    listed = [joined(element("dt", name), element("dd", str(fact))) for name, fact in facts.items() if fact]
    return joined(
        element("h2", "How it was made"),
        element("dl", listed),
        _failures(document),
        *(_models(row, document["metric"]) for row in document["configurations"]),
    )


def _models(row: Mapping[str, Any], metric: str) -> Markup | None:
    models = row.get("models") or []
    if not models:
        return None
    name = formatting.metric_name(metric)
    rows = [
        [
            str(model["member"]),
            str(model.get("step", "")),
            formatting.percent(say.known(model.get("validation"))),
            formatting.percent(say.known((model.get("test") or {}).get(metric))),
            element("span", str(model.get("run_id", "")), class_="code"),
        ]
        for model in models
    ]
    headings = ["model", "step", f"validation {name} %", f"test {name} %", "run"]
    digest = element("span", f"configuration {row['digest']}", class_="code") if row.get("digest") else None
    listed = joined(digest, table(headings, rows, numbers=(1, 2, 3), class_="cards small"))
    title = say.name_of(row)
    if len(models) > FEW_MODELS:
        return element("details", element("summary", f"{title}: {len(models)} models"), listed)
    return joined(element("h3", title), listed)


def _failures(document: Mapping[str, Any]) -> Markup | None:
    failed: Mapping[str, str] = document.get("failed") or {}
    if not failed:
        return None
    rows = [[member, formatting.first_line(reason)] for member, reason in failed.items()]
    return joined(element("h3", "Failed"), table(["model", "reason"], rows))
