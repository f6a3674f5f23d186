"""Numbers, parameters and times as text. Scores are fractions everywhere else and percent here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.errors import printable

if TYPE_CHECKING:
    from dmltune.search.state import TrialRecord

METRICS = {
    "map_at_r": "MAP@R",
    "precision_at_1": "P@1",
    "r_precision": "R-precision",
    "nmi": "NMI",
    "f1": "F1",
    "k_reciprocal_map_at_r": "k-reciprocal MAP@R",
    "aqe_map_at_r": "query expansion MAP@R",
}
COSTS = {  # of a model: short and long names
    "embedding_size": ("dim", "embedding size"),
    "parameters": ("Mweights", "million weights"),
    "ms_per_image": ("ms", "ms per image"),
}
TEST_LISTS = ("small_", "medium_")  # figures within a smaller test list (VehicleID)
ROLES = {"reference": "reference", "baseline": "baseline", "repeat": "repeat", "cheap": "cheap", "search": ""}
STATES = {"complete": "done", "interrupted": "stopped"}


def metric_name(metric: str) -> str:
    """`map_at_r` → `MAP@R`, `recall_at_4` → `R@4`, `small_recall_at_1` → `small R@1`."""
    for name in TEST_LISTS:
        if metric.startswith(name):
            return f"{name[:-1]} {metric_name(metric.removeprefix(name))}"
    if metric.startswith("recall_at_"):
        return f"R@{metric.removeprefix('recall_at_')}"
    return METRICS.get(metric, metric)


def percent(score: float | None, signed: bool = False) -> str:
    """0.4512 → 45.1, with `signed` +45.1; None and NaN are a dash."""
    if score is None or not math.isfinite(score):
        return "–"
    return f"{100 * score:+.1f}" if signed else f"{100 * score:.1f}"


def value(item: Any, digits: int = 3) -> str:
    """0.00020000001 → 0.0002, 3.1e-05 → 3.1e-5; other types by `str`, control characters escaped."""
    if isinstance(item, float):
        return re.sub(r"e([+-])0*", r"e\1", f"{item:.{digits}g}")
    return printable(str(item))


def file_size(file: Path) -> str:
    """Return `40 kB`, or `1.2 MB` from 100 kB on."""
    size = file.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{math.ceil(size / 1000)} kB"


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """`references.lambda` → `lambda`, unless another key has the same end; `loss.name` → `loss`."""
    keys = list(keys)
    ends = [key.rsplit(".", 1)[-1] for key in keys]
    names = {}
    for key, end in zip(keys, ends, strict=True):
        section = key.rsplit(".", 1)[0]
        names[key] = section if end == "name" else end if ends.count(end) == 1 else key
    return names


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{references: {name: batch}}` → `{references.name: batch}`."""
    leaves: dict[str, Any] = {}
    for key, item in tree.items():
        leaves |= flat(item, f"{prefix}{key}.") if isinstance(item, Mapping) else {f"{prefix}{key}": item}
    return leaves


def parameters(values: Mapping[str, Any], digits: int = 3) -> str:
    """`lambda=0.0002 proxies=8`."""
    names = short_names(values)
    return " ".join(f"{names[key]}={value(item, digits)}" for key, item in values.items())


def clock(seconds: float) -> str:
    """75 → 1m15s, 7500 → 2h05m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def state(record: TrialRecord) -> str:
    """Return the name of a trial's state: running, paused, done, pruned, failed or stopped."""
    return STATES.get(record.state, record.state)


def untrained(record: TrialRecord) -> str:
    """Return ` (untrained)` for a complete trial that was never better than before its first step."""
    return " (untrained)" if record.untrained else ""


def first_line(reason: str) -> str:
    """Return the first line of a reason, which may be a traceback."""
    return printable((reason.strip().splitlines() or ["no reason given"])[0][:200])


def projection(metrics: Mapping[str, float]) -> str:
    """Return the number of the projection of CCP; nothing for other references."""
    return f"{metrics['projection']:.0f}" if "projection" in metrics else ""


def counts(records: Iterable[TrialRecord]) -> str:
    """`9 done, 2 pruned, 1 failed`."""
    states = [state(record) for record in records]
    names = ("running", "paused", "done", "pruned", "failed", "stopped")
    return ", ".join(f"{states.count(name)} {name}" for name in names if name in states) or "none"


def better(mode: str, left: float | None, right: float | None) -> bool:
    """Return whether `left` is better than `right`; None and NaN are worse than every number."""
    if left is None or not math.isfinite(left):
        return False
    if right is None or not math.isfinite(right):
        return True
    return left > right if mode == "max" else left < right
