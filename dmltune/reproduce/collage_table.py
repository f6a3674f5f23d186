"""The table of the collage study: scores of the methods over their seeds."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dmltune.core.checkpoint import replace_file
from dmltune.reproduce.pictures import draw_bars
from dmltune.train.run_series import RESULT

BASELINE = "gap"
TABLE, PICTURE = "poolings.csv", "poolings.png"

Results = Mapping[tuple[str, int], dict[str, Any]]  # (method, seed) → what its training came to


@dataclass(frozen=True)
class CollageRow:
    """One method. `std` is over the seeds (0 for a single one), `to_gap` is paired by seed."""

    method: str
    seeds: int
    map_at_r: float
    std: float
    to_gap: float | None
    precision_at_1: float
    validation: float


@dataclass(frozen=True)
class CollageResult:
    """The table; `raw_pixels` is MAP@R of the images themselves."""

    name: str
    rows: tuple[CollageRow, ...]
    failed: Mapping[str, str]
    stopped: bool
    folder: Path
    test_classes: int
    raw_pixels: float


def member(method: str, seed: int) -> str:
    return f"{method.replace('+', '-')}-seed{seed}"


def read_results(folder: Path, members: Iterable[tuple[str, int]]) -> Results:
    """Return the results of the members (method, seed) that are done."""
    results = {}
    for method, seed in members:
        with contextlib.suppress(FileNotFoundError, ValueError):
            text = (folder / "trials" / member(method, seed) / RESULT).read_text(encoding="utf-8")
            results[method, seed] = json.loads(text)
    return results


def collage_result(
    name: str, folder: Path, results: Results, failed: Mapping[str, str], stopped: bool
) -> CollageResult:
    """Return the rows, the best first."""
    methods = dict.fromkeys(method for method, _ in results)
    rows = sorted((_row(method, results) for method in methods), key=lambda row: -row.map_at_r)
    any_test: Mapping[str, Any] = next((result["test"] for result in results.values()), {})
    return CollageResult(
        name=name,
        rows=tuple(rows),
        failed=failed,
        stopped=stopped,
        folder=folder,
        test_classes=int(any_test.get("classes", 0)),
        raw_pixels=float(any_test.get("raw_pixels", {}).get("map_at_r", 0.0)),
    )


def write_files(result: CollageResult) -> list[Path]:
    """Write the table and its picture; return their paths."""
    if not result.rows:
        return []
    text = io.StringIO()
    writer = csv.DictWriter(text, list(asdict(result.rows[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in result.rows)
    replace_file(result.folder / TABLE, text.getvalue().encode())
    title = f"collages: MAP@R on {result.test_classes} test classes"
    bars = [(row.method, row.map_at_r, row.std) for row in result.rows]
    return [result.folder / TABLE, draw_bars(bars, BASELINE, title, result.folder / PICTURE)]


def _row(method: str, results: Results) -> CollageRow:
    own = {seed: result for (name, seed), result in results.items() if name == method}
    scores = {seed: float(result["test"]["map_at_r"]) for seed, result in own.items()}
    base = {s: float(result["test"]["map_at_r"]) for (name, s), result in results.items() if name == BASELINE}
    gaps = [score - base[seed] for seed, score in scores.items() if seed in base]
    return CollageRow(
        method=method,
        seeds=len(own),
        map_at_r=statistics.fmean(scores.values()),
        std=statistics.stdev(scores.values()) if len(own) > 1 else 0.0,
        to_gap=statistics.fmean(gaps) if gaps else None,
        precision_at_1=statistics.fmean(float(result["test"]["precision_at_1"]) for result in own.values()),
        validation=statistics.fmean(float(result["validation"]) for result in own.values()),
    )
