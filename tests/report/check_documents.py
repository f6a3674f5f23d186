"""Documents of checks as `CheckResult.to_dict()` gives them, with figures of a realistic size."""

from __future__ import annotations

import random
from typing import Any

KEYS = ("winner", "reference", "baseline")
METRICS = {"map_at_r": 0.0, "precision_at_1": 0.27, "r_precision": 0.08}
WINNER = {"references.lambda": 1.2345e-5, "references.proxies": 16, "references.pool_size": 24}
PAPER = {"references.lambda": 2e-4, "references.proxies": 8, "references.pool_size": 12}
GEOMETRY = {
    "inter_class_distance": 0.412,
    "intra_class_distance": 0.633,
    "subspace_overlap": 0.87,
    "class_divergence": 0.41,
    "divergence_spread": 0.081,
    "eigenvalue_similarity": 0.88,
    "variance_similarity": 0.79,
    "rotation_shift": 0.21,
    "covering_radius": 0.52,
}


def document(
    folds: int = 4, repeats: int = 3, classes: int = 100, seed: int = 0, **changes: Any
) -> dict[str, Any]:
    """Winner, reference point and baseline of a study on birds; `changes` replace top-level entries."""
    rng = random.Random(seed)
    names = [f"{number:03d}.{rng.choice(('Warbler', 'Sparrow', 'Gull'))}" for number in range(classes)]
    base = [min(0.9, max(0.02, rng.gauss(0.22, 0.1))) for _ in names]
    shape = (folds, repeats, rng)
    found, unsure = gap(0.031, 0.012, 0.050, 0.003), gap(0.004, -0.010, 0.018, 0.41)
    score = {"observed": 0.2612, "corrected": 0.2549, "bias": 0.0063, "noise_sd": 0.008, "n": 24}
    made = {
        "name": "birds",
        "search": "birds",
        "space_name": "cub-lite-ccp",
        "data": "cub",
        "fingerprint": "9f1c2e77a0b4d311",
        "protocol": "fair",
        "folds": folds,
        "repeats": repeats,
        "metric": "map_at_r",
        "level": 0.95,
        "commit": "e0934e0c2d7a",
        "versions": {"dmltune": "0.1.0", "torch": "2.15.0", "ray": "2.60.0", "python": "3.11.9"},
        "test_images": 5924,
        "test_classes": classes,
        "queries_without_match": 0,
        "baseline": "baseline",
        "stopped": False,
        "failed": {},
        "configurations": [
            configuration("winner", ["winner"], WINNER, 0.251, *shape, found),
            configuration("reference", ["reference point"], PAPER, 0.226, *shape, unsure),
            configuration("baseline", ["baseline"], {"references.name": "batch"}, 0.221, *shape, None),
        ],
        "search_score": {"metric": "map_at_r", **score},
        "per_class": {
            "classes": names,
            "images": [rng.randint(41, 60) for _ in names],
            "baseline": base,
            "winner": [max(0.0, score + rng.gauss(0.03, 0.05)) for score in base],
            "reference": [max(0.0, score + rng.gauss(0.004, 0.04)) for score in base],
        },
        "confusions": {key: confused(names, rng) for key in KEYS},
        "distances": {key: histogram(centre) for key, centre in zip(KEYS, (0.9, 0.96, 1.0), strict=True)},
        "openings": [opening("2026-11-18T17:03:21+00:00", "check")],
        "again": False,
    }
    return {**made, **changes}


def configuration(
    key: str,
    labels: list[str],
    values: dict[str, Any],
    centre: float,
    folds: int,
    repeats: int,
    rng: random.Random,
    versus: dict[str, Any] | None,
) -> dict[str, Any]:
    shift = [rng.gauss(0, 0.006) for _ in range(folds)]
    models = [
        {
            "member": f"{key}-fold{fold}-seed{1000 + repeat}",
            "fold": fold,
            "seed": 1000 + repeat,
            "run_id": f"{rng.getrandbits(128):032x}",
            "step": 600 + 25 * rng.randint(0, 8),
            "validation": centre + shift[fold] + rng.gauss(0.03, 0.004),
            "test": {
                name: centre + more + shift[fold] + rng.gauss(0, 0.004) for name, more in METRICS.items()
            },
        }
        for repeat in range(repeats)
        for fold in range(folds)
    ]
    return {
        "key": key,
        "labels": labels,
        "values": values,
        "digest": f"{rng.getrandbits(64):016x}",
        "models": models,
        "single": {
            name: interval(centre + more, 0.008, folds * repeats - 1) for name, more in METRICS.items()
        },
        "ensemble": {
            name: {
                "mean": centre + more + 0.02,
                "low": centre + more + 0.016,
                "high": centre + more + 0.024,
                "collections": repeats**folds,
                "dim": 128 * folds,
            }
            for name, more in METRICS.items()
        },
        "versus_baseline": versus,
        "geometry": {name: value * rng.uniform(0.9, 1.1) for name, value in GEOMETRY.items()},
    }


def interval(mean: float, half: float, df: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - half, "high": mean + half, "sd": half / 0.7, "df": df}


def gap(
    difference: float, low: float | None, high: float | None, p: float | None, **more: Any
) -> dict[str, Any]:
    made = {
        "difference": difference,
        "low": low,
        "high": high,
        "p": p,
        "effect_size": difference / 0.0085,
        "wins": 0.92 if difference > 0.02 else 0.58,
        "fold_sd": 0.004,
        "seed_sd": 0.005,
        "class_sd": 0.061,
        "models": 12,
        "classes": 100,
        "p_holm": p,
    }
    return {**made, **more}


def confused(names: list[str], rng: random.Random) -> list[dict[str, Any]]:
    rows = []
    for rank in range(20):
        of, other = rng.sample(names, 2)
        count = 180 - 6 * rank
        rows.append({"of": of, "as": other, "count": count, "share": count / 720})
    return rows


def histogram(centre: float) -> dict[str, list[float]]:
    """Triangles: the distances of one class lie left of those of two."""
    edges = [2 * i / 100 for i in range(101)]

    def counts(middle: float, width: float, pairs: int) -> list[float]:
        heights = [max(0.0, 1 - abs(edge + 0.01 - middle) / width) for edge in edges[:-1]]
        return [round(pairs * height / sum(heights)) for height in heights]

    return {
        "edges": edges,
        "positive": counts(centre, 0.5, 170_000),
        "negative": counts(1.25, 0.4, 17_000_000),
    }


def opening(when: str, kind: str, **changes: Any) -> dict[str, Any]:
    made = {
        "id": "5f3a9c0d1e2b",
        "time": when,
        "who": "ada@lab-3",
        "kind": kind,
        "study": "birds",
        "check": "birds-check",
        "why": "check of search birds",
        "command": "dmltune check birds --repeats 3",
        "data": "cub",
        "fingerprint": "9f1c2e77a0b4d311",
        "configurations": ["1f0b5c2d3e4f5a6b"],
        "run_ids": ["0123456789abcdef0123456789abcdef"],
        "commit": "e0934e0c2d7a",
    }
    return {**made, **changes}
