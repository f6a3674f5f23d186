"""The runs of a search in a store."""

from __future__ import annotations

from dmltune.tracking import Run, Tracker


def runs_of(tracker: Tracker, name: str) -> tuple[Run, list[Run]]:
    """The run of a search, and those of its trials in their order."""
    parent = tracker.find(name)
    assert parent is not None
    return parent, sorted(tracker.children(parent), key=lambda run: run.data.tags["dmltune.number"])
