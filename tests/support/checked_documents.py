"""Documents of checks with scores that are given model by model; intervals are those of the scores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from dmltune.check.document import CheckDocument
from dmltune.tables.finished_checks import FinishedCheck

Scores = Mapping[tuple[int, int], float]  # (fold, seed) → score


def grid(centre: float, spread: Sequence[float] = (0.0,), folds: int = 4, repeats: int = 3) -> Scores:
    """Scores around a centre: `spread` is gone through model by model."""
    pairs = [(fold, 1000 + repeat) for repeat in range(repeats) for fold in range(folds)]
    return {pair: centre + spread[place % len(spread)] for place, pair in enumerate(pairs)}


def interval(scores: Scores) -> dict[str, float | None]:
    """Student's, for independent models."""
    values, n = list(scores.values()), len(scores)
    if n < 2:
        return {"mean": values[0], "low": None, "high": None, "sd": None, "df": None}
    sd = statistics.stdev(values)
    half = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n)
    mean = statistics.fmean(values)
    return {"mean": mean, "low": mean - half, "high": mean + half, "sd": sd, "df": n - 1.0}


def configuration(
    key: str,
    scores: Scores,
    labels: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    step: int = 100,
    **more: Any,
) -> dict[str, Any]:
    models = [
        {
            "member": f"{key}-fold{fold}-seed{seed}",
            "fold": fold,
            "seed": seed,
            "run_id": f"run-{key}-{fold}-{seed}",
            "step": step,
            "validation": score + 0.2,
            "test": {"map_at_r": score, "precision_at_1": score + 0.3},
        }
        for (fold, seed), score in scores.items()
    ]
    shifted = {pair: score + 0.3 for pair, score in scores.items()}
    single = {"map_at_r": interval(scores), "precision_at_1": interval(shifted)} if scores else {}
    joined = {
        name: {"mean": figure["mean"] + 0.05, "low": None, "high": None, "collections": 81, "dim": 512}
        for name, figure in single.items()
        if figure["mean"] is not None
    }
    return {
        "key": key,
        "labels": list(labels) or [key],
        "values": dict(values or {}),
        "digest": f"digest-{key}",
        "models": models,
        "single": single,
        "ensemble": joined,
        "versus_baseline": None,
        "geometry": {},
    } | more


def versus(**figures: float) -> dict[str, float]:
    """The comparison with the baseline, these figures of it given."""
    names = ("effect_size", "wins", "fold_sd", "seed_sd", "class_sd")
    return dict.fromkeys(names, 1.0) | {"models": 12, "classes": 100} | figures


def checked(name: str, *configurations: Mapping[str, Any], **more: Any) -> FinishedCheck:
    document = {
        "name": name,
        "search": name,
        "space_name": "cub-ccp",
        "data": "cub",
        "fingerprint": "9f1c2e77a0b4d311",
        "protocol": "fair",
        "folds": 4,
        "repeats": 3,
        "metric": "map_at_r",
        "level": 0.95,
        "commit": "e0934e0c2d7a",
        "baseline": configurations[0]["key"] if configurations else None,
        "stopped": False,
        "failed": {},
        "configurations": list(configurations),
        "openings": [],
        "again": False,
    }
    return FinishedCheck(name, f"parent-of-{name}", CheckDocument.from_dict(document | more))
