"""The figures of a check under protocol tuning: scores of the validation classes, no test class is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from dmltune.check import document as documents
from dmltune.check.comparison import Comparison, compare_scores, holm
from dmltune.check.document import CheckDocument, ConfigurationResult, ModelResult
from dmltune.check.plan import CheckPlan
from dmltune.check.statistics import mean_interval
from dmltune.train.run_series import RunSeries

Models = Sequence[ModelResult]


def validated(document: CheckDocument, plan: CheckPlan, series: RunSeries) -> CheckDocument:
    """Return the document with the best validation score of every model, means and comparisons."""
    metric = plan.first().objective.metric
    models: dict[str, list[ModelResult]] = {each.key: [] for each in plan.configurations}
    for member in plan.members():
        if (trained := series.result(member.name)) is not None:
            training = {key: trained[key] for key in ("run_id", "step", "validation")}
            result = ModelResult(member.name, member.fold, member.seed, **training, test={})
            models[member.key].append(result)
    compared = {
        key: _compared(own, models[plan.baseline], document.level)
        for key, own in models.items()
        if plan.baseline and key != plan.baseline
    }
    pairs = {key: comparison for key, comparison in compared.items() if comparison is not None}
    corrected = dict(zip(pairs, holm([comparison.p for comparison in pairs.values()]), strict=True))
    results = tuple(
        ConfigurationResult(
            key=each.key,
            labels=each.labels,
            values=dict(each.values),
            digest=each.digest,
            models=tuple(models[each.key]),
            single=_single(models[each.key], metric, document.level),
            versus_baseline=documents.BaselineComparison(
                p_holm=corrected[each.key], **asdict(pairs[each.key])
            )
            if each.key in pairs
            else None,
        )
        for each in plan.configurations
    )
    complete = replace(document, metric=metric, configurations=results)
    return CheckDocument.from_dict(complete.to_dict())  # as a reader of the file gets it: NaN is None


def _single(models: Models, metric: str, level: float) -> dict[str, documents.MeanResult]:
    if not models:
        return {}
    scores_M = np.array([model.validation for model in models], dtype=np.float64)
    interval = mean_interval(scores_M, np.array([model.fold for model in models]), level)
    return {metric: documents.MeanResult(**asdict(interval))}


def _compared(ours: Models, base: Models, level: float) -> Comparison | None:
    """Compare models paired by fold and seed; None without a pair."""
    scores = [{(model.fold, model.seed): model.validation for model in side} for side in (ours, base)]
    pairs = sorted(set(scores[0]) & set(scores[1]))
    if not pairs:
        return None
    ours_M, base_M = (np.array([side[pair] for pair in pairs], dtype=np.float64) for side in scores)
    return compare_scores(ours_M, base_M, np.array([fold for fold, _ in pairs]), level)
