"""From the models of a check to its document: means with intervals, paired comparisons, what to look at.

M models of a configuration, Q test queries, C classes. All figures are fractions; None is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmltune.check.ensembles import ensemble
from dmltune.check.finished_search import FinishedSearch
from dmltune.check.plan import CheckPlan, PlannedModel
from dmltune.core import confusions
from dmltune.data.images import ImageSet
from dmltune.train.measurement import read_measurement
from dmltune.train.run_series import RunSeries

METRIC = "map_at_r"
LEVEL = 0.95
CONFUSIONS = 20
_NOT_AVERAGED = ("queries_without_match",)


@dataclass(frozen=True)
class Model:
    """A trained member, and its figures on the test classes. NaN is a query without a match."""

    member: PlannedModel
    kept: Mapping[str, Any]  # run_id, step, validation
    about: Mapping[str, Any]  # metrics, geometry, distances
    precision_Q: Tensor
    nearest_Q: Tensor
    matched_Q: Tensor

    @classmethod
    def read(cls, series: RunSeries, member: PlannedModel) -> Model | None:
        kept = series.result(member.name)
        if kept is None:
            return None
        found, about = read_measurement(
            series.member_folder(member.name), "average_precision", "nearest", "matched"
        )
        precision_Q = found["average_precision"].double().masked_fill(~found["matched"], torch.nan)
        return cls(member, kept, about, precision_Q, found["nearest"], found["matched"])

    @property
    def pair(self) -> tuple[int, int]:
        return self.member.fold, self.member.seed

    def to_dict(self) -> dict[str, Any]:
        return {
            "member": self.member.name,
            "fold": self.member.fold,
            "seed": self.member.seed,
            "run_id": self.kept["run_id"],
            "step": self.kept["step"],
            "validation": self.kept["validation"],
            "test": self.about["metrics"],
        }


def results(
    plan: CheckPlan,
    series: RunSeries,
    images: ImageSet,
    search: FinishedSearch | None,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The parts of the document that come from the models."""
    models: dict[str, list[Model]] = {one.key: [] for one in plan.configurations}
    for member in plan.members():
        if (model := Model.read(series, member)) is not None:
            models[member.key].append(model)
    labels_Q, gallery_labels, _ = _asked(images)
    comparisons = _comparisons(models, plan.baseline, labels_Q)
    rows = []
    for one in plan.configurations:
        mine = models[one.key]
        say(f"{one.key}: {len(mine)} models measured; now the concatenations of {plan.folds} of them")
        rows.append(
            {
                "key": one.key,
                "labels": list(one.labels),
                "values": dict(one.values),
                "digest": one.digest,
                "models": [model.to_dict() for model in mine],
                "single": _single(mine),
                "ensemble": _ensemble(series, plan, mine, images),
                "versus_baseline": comparisons.get(one.key),
                "geometry": _mean_of([model.about["geometry"] for model in mine]),
            }
        )
    return {
        "test_images": len(images),
        "test_classes": images.num_classes,
        "queries_without_match": int(
            next((m.about["metrics"]["queries_without_match"] for ms in models.values() for m in ms), 0)
        ),
        "configurations": rows,
        "search_score": _search_score(search, models, rows),
        "per_class": _per_class(models, images, labels_Q),
        "confusions": {
            key: _confusions(mine, images, labels_Q, gallery_labels) for key, mine in models.items() if mine
        },
        "distances": {
            key: _distances([model.about["distances"] for model in mine])
            for key, mine in models.items()
            if mine
        },
    }


def _asked(images: ImageSet) -> tuple[Tensor, Tensor, Tensor]:
    """Labels of the queries, labels of the gallery, and which images are queries."""
    labels_N = torch.from_numpy(images.labels_N)
    if images.query_N is None:
        return labels_N, labels_N, torch.ones(len(labels_N), dtype=torch.bool)
    query_N = torch.from_numpy(images.query_N)
    return labels_N[query_N], labels_N[~query_N], query_N


def _single(models: Sequence[Model]) -> dict[str, Any]:
    from dmltune.check.statistics import mean_interval

    if not models:
        return {}
    folds = np.array([model.member.fold for model in models])
    document = {}
    for metric in models[0].about["metrics"]:
        if metric not in _NOT_AVERAGED:
            scores = np.array([model.about["metrics"][metric] for model in models])
            found = asdict(mean_interval(scores, folds, LEVEL))
            bounds = np.clip([found["low"], found["high"]], 0.0, 1.0)  # they are shares
            document[metric] = found | {"low": float(bounds[0]), "high": float(bounds[1])}
    return document


def _ensemble(
    series: RunSeries, plan: CheckPlan, models: Sequence[Model], images: ImageSet
) -> dict[str, Any]:
    by_fold: list[list[Tensor]] = [[] for _ in range(plan.folds)]
    for model in sorted(models, key=lambda model: model.member.seed):
        by_fold[model.member.fold].append(
            read_measurement(series.member_folder(model.member.name), "emb")[0]["emb"]
        )
    return ensemble(by_fold, images, LEVEL)


def _comparisons(
    models: Mapping[str, Sequence[Model]], baseline: str | None, labels_Q: Tensor
) -> dict[str, dict[str, Any]]:
    """Each configuration with the baseline, model by model of the same fold and seed; Holm over all."""
    from dmltune.check.statistics import compare, holm

    base = {model.pair: model for model in models.get(baseline or "", [])}
    found: dict[str, dict[str, Any]] = {}
    for key, mine in models.items():
        ours = {model.pair: model for model in mine}
        pairs = sorted(set(ours) & set(base))
        if key == baseline or not pairs:
            continue
        found[key] = asdict(
            compare(
                np.stack([ours[pair].precision_Q.numpy() for pair in pairs]),
                np.stack([base[pair].precision_Q.numpy() for pair in pairs]),
                labels_Q.numpy(),
                np.array([fold for fold, _ in pairs]),
                LEVEL,
            )
        )
    known = [key for key, one in found.items() if one["p"] is not None and math.isfinite(one["p"])]
    for key, corrected in zip(known, holm([found[key]["p"] for key in known]), strict=True):
        found[key]["p_holm"] = corrected
    return {key: {"p_holm": None, **one} for key, one in found.items()}


def _search_score(
    search: FinishedSearch | None, models: Mapping[str, Sequence[Model]], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The winner's score in the search without the luck of having been chosen among n. The noise is that of
    seeds, from the validation scores of this check's models; None where there is one seed alone.
    """
    from dmltune.check.statistics import best_of_n

    noise_sd = seed_noise(models.values())
    if search is None or noise_sd is None:
        return None
    sign = -1 if search.mode == "min" else 1
    scores = np.array([sign * row["best"] for row in search.complete()])
    found = asdict(best_of_n(scores, noise_sd, 0))  # the best comes first
    return {
        "metric": search.metric,
        **found,
        "observed": sign * found["observed"],
        "corrected": sign * found["corrected"],
    }


def seed_noise(configurations: Iterable[Sequence[Model]]) -> float | None:
    """√ of the mean variance of validation scores between seeds of one configuration and fold."""
    squares, freedom = 0.0, 0
    for models in configurations:
        groups: dict[int, list[float]] = {}
        for model in models:
            groups.setdefault(model.member.fold, []).append(float(model.kept["validation"]))
        for scores in groups.values():
            squares += float(np.var(scores)) * len(scores)
            freedom += len(scores) - 1
    return math.sqrt(squares / freedom) if freedom else None


def _per_class(
    models: Mapping[str, Sequence[Model]], images: ImageSet, labels_Q: Tensor
) -> dict[str, list[Any]]:
    document: dict[str, list[Any]] = {
        "classes": list(images.class_names),
        "images": np.bincount(images.labels_N, minlength=images.num_classes).tolist(),
    }
    for key, mine in models.items():
        if mine:
            mean_Q = torch.stack([model.precision_Q for model in mine]).mean(0)
            labels_C, mean_C = confusions.per_class(mean_Q, labels_Q)
            found = dict(zip(labels_C.tolist(), mean_C.tolist(), strict=True))
            document[key] = [found.get(label) for label in range(images.num_classes)]
    return document


def _confusions(
    models: Sequence[Model], images: ImageSet, labels_Q: Tensor, gallery_labels: Tensor
) -> list[dict[str, Any]]:
    """Over the queries of all models."""
    of = torch.cat([labels_Q[model.matched_Q] for model in models])
    taken_for = torch.cat([gallery_labels[model.nearest_Q[model.matched_Q]] for model in models])
    return [
        {
            "of": images.class_names[pair.of],
            "as": images.class_names[pair.taken_for],
            "count": pair.queries,
            "share": pair.share,
        }
        for pair in confusions.confusions(of, taken_for, CONFUSIONS)
    ]


def _distances(histograms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sum over the models, in bins up to the largest edge of all; a count goes where its bin's centre
    lies.
    """
    bins = len(histograms[0]["edges"]) - 1
    edges = np.linspace(0.0, max(one["edges"][-1] for one in histograms), bins + 1)
    counts = {}
    for side in ("positive", "negative"):
        total = np.zeros(bins, dtype=np.int64)
        for one in histograms:
            own = np.asarray(one["edges"])
            place = np.searchsorted(edges, (own[:-1] + own[1:]) / 2, side="right") - 1
            np.add.at(total, place.clip(0, bins - 1), np.asarray(one[side], dtype=np.int64))
        counts[side] = total.tolist()
    return {"edges": edges.tolist(), **counts}


def _mean_of(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in figures])) for name in (figures[0] if figures else {})}


def plain(value: Any) -> Any:
    """JSON's types; NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
