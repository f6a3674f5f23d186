"""A search without runs: trial 0, the baseline, and others in every state."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.search.state import SearchResult, SearchState, TrialRecord

PAPER = {"references.lambda": 2e-4, "references.proxies": 8, "references.pool_size": 12}


def point(penalty: float, proxies: int) -> dict[str, object]:
    return {"references.lambda": penalty, "references.proxies": proxies, "references.pool_size": 24}


@pytest.fixture
def state() -> SearchState:
    rows = [
        TrialRecord(0, "reference", PAPER, "complete", 600, 600, 0.401, 0.405, {"untrained": 0.183}, 20.0),
        TrialRecord(
            1, "baseline", {"references.name": "batch"}, "complete", 600, 600, 0.398, 0.398, {}, 20.0
        ),
        TrialRecord(2, "search", point(1.2345e-5, 16), "complete", 600, 600, 0.421, 0.4261, {}, 20.0),
        TrialRecord(3, "search", point(0.051, 2), "pruned", 200, 600, 0.281, 0.281, {}, 7.0),
        TrialRecord(
            4, "search", point(0.0999, 1), "failed", 300, 600, None, None, {}, 9.0, "the loss is NaN\nat 250"
        ),
        TrialRecord(5, "search", point(3e-3, 11), "running", 100, 600, 0.25, 0.25, {}, 4.0),
    ]
    search = SearchState("demo", "glyphs-ccp", "map_at_r", "max", trials_planned=13, concurrent=2)
    for row in rows:
        search.put(row)
    return search


@pytest.fixture
def result(state: SearchState, tmp_path: Path) -> SearchResult:
    rows = tuple(state.rows.values())
    return SearchResult(
        "demo", "glyphs-ccp", "map_at_r", "max", "ablation", rows, rows[2], rows[0], rows[1], 0.183,
        "1", "parent", tmp_path / "mlruns",
    )  # fmt: skip
