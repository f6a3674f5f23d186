"""The figures of a check: means with intervals, ensembles, paired comparisons.

M models of a configuration, Q test queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

import numpy as np
from torch import Tensor

from dmltune.check import document as documents
from dmltune.check import measured_models
from dmltune.check.clusterings import measure_clusterings
from dmltune.check.comparison import compare, holm
from dmltune.check.document import CheckDocument
from dmltune.check.ensembles import ensemble
from dmltune.check.finished_search import FinishedSearch
from dmltune.check.measured_models import MeasuredModel, Models
from dmltune.check.plan import CheckPlan
from dmltune.check.rerankings import measure_rerankings
from dmltune.check.statistics import best_of_n, mean_interval
from dmltune.data.images import ImageSet
from dmltune.train.measurement import read_measurement
from dmltune.train.run_series import RunSeries

COUNTS = ("queries_without_match",)  # metrics that are not averaged


def measured(
    document: CheckDocument,
    plan: CheckPlan,
    series: RunSeries,
    images: ImageSet,
    search: FinishedSearch | None,
    log: Callable[[str], None],
) -> CheckDocument:
    """Return the document with all that comes from the models."""
    if plan.clustering:
        measure_clusterings(plan, series, images, log)
    if plan.rerank:
        measure_rerankings(plan, series, images, log)
    models = measured_models.read_models(plan, series)
    comparisons = _comparisons(models, plan.baseline, images, document.level)
    results = []
    for each in plan.configurations:
        own = models[each.key]
        if plan.folds > 1:
            log(f"{each.key}: {len(own)} models measured; now the concatenations of {plan.folds} of them")
        results.append(
            documents.ConfigurationResult(
                key=each.key,
                labels=each.labels,
                values=dict(each.values),
                digest=each.digest,
                models=tuple(model.result for model in own),
                single=_single(own, document.level),
                ensemble=_ensemble(series, plan, own, images, document.level, log),
                versus_baseline=comparisons.get(each.key),
                geometry={
                    name: float(np.mean([model.geometry[name] for model in own]))
                    for name in (own[0].geometry if own else ())
                },
            )
        )
    trained = {key: own for key, own in models.items() if own}
    unmatched = [model.result.test["queries_without_match"] for own in trained.values() for model in own]
    complete = replace(
        document,
        configurations=tuple(results),
        test_images=len(images),
        test_classes=images.num_classes,
        queries_without_match=int(unmatched[0] or 0) if unmatched else 0,
        search_score=None if search is None else _search_score(search, models),
        per_class=measured_models.class_scores(trained, images),
        confusions={key: measured_models.class_confusions(own, images) for key, own in trained.items()},
        distances={
            key: measured_models.summed_histogram([model.distances for model in own])
            for key, own in trained.items()
        },
    )
    return CheckDocument.from_dict(complete.to_dict())  # as a reader of the file gets it: NaN is None


def _single(models: Sequence[MeasuredModel], level: float) -> dict[str, documents.MeanResult]:
    folds = np.array([model.member.fold for model in models])
    results = {}
    for metric in models[0].result.test if models else ():
        if metric in COUNTS or not all(metric in model.result.test for model in models):
            continue  # a model of an older version has fewer metrics
        interval = mean_interval(np.array([model.result.test[metric] for model in models]), folds, level)
        low, high = np.clip([interval.low, interval.high], 0.0, 1.0).tolist()  # metrics are shares
        results[metric] = documents.MeanResult(**asdict(interval) | {"low": low, "high": high})
    return results


def _ensemble(
    series: RunSeries,
    plan: CheckPlan,
    models: Sequence[MeasuredModel],
    images: ImageSet,
    level: float,
    log: Callable[[str], None],
) -> dict[str, documents.EnsembleResult]:
    emb_FR: list[list[Tensor]] = [[] for _ in range(plan.folds)]
    for model in sorted(models, key=lambda model: model.member.seed):
        tensors, _ = read_measurement(series.member_folder(model.member.name), "emb")
        emb_FR[model.member.fold].append(tensors["emb"])
    results = ensemble(emb_FR, images, level, log)
    return {metric: result for metric, result in results.items() if metric not in COUNTS}


def _comparisons(
    models: Models, baseline: str | None, images: ImageSet, level: float
) -> dict[str, documents.BaselineComparison]:
    """Compare each with the baseline, paired by fold and seed, with Holm's correction."""
    labels_Q, _ = measured_models.query_labels(images)
    base = {model.pair: model for model in models.get(baseline or "", [])}
    comparisons = {}
    for key, own in models.items():
        ours = {model.pair: model for model in own}
        pairs = sorted(set(ours) & set(base))
        if key == baseline or not pairs:
            continue
        comparisons[key] = compare(
            np.stack([ours[pair].precision_Q.numpy() for pair in pairs]),
            np.stack([base[pair].precision_Q.numpy() for pair in pairs]),
            labels_Q.numpy(),
            np.array([fold for fold, _ in pairs]),
            level,
        )
    corrected = holm([comparison.p for comparison in comparisons.values()])  # NaN stays NaN
    return {
        key: documents.BaselineComparison(p_holm=p, **asdict(comparison))
        for (key, comparison), p in zip(comparisons.items(), corrected, strict=True)
    }


def _search_score(search: FinishedSearch, models: Models) -> documents.SearchScore | None:
    """Return the winner's score corrected for having been chosen among the complete trials.

    The noise is that of seeds, from the validation scores of this check; None where there is one seed.
    """
    if (noise_sd := seed_noise(models.values())) is None:
        return None
    sign = -1 if search.mode == "min" else 1
    scores = np.array([sign * (trial.best or 0.0) for trial in search.complete_trials()])  # best first
    score = best_of_n(scores, noise_sd, 0)
    return documents.SearchScore(
        search.metric, sign * score.observed, sign * score.corrected, score.bias, score.noise_sd, score.n
    )


def seed_noise(configurations: Iterable[Sequence[MeasuredModel]]) -> float | None:
    """Return √ of the mean variance of validation scores between seeds of one fold."""
    squares, df = 0.0, 0
    for models in configurations:
        groups: dict[int, list[float]] = {}
        for model in models:
            groups.setdefault(model.member.fold, []).append(float(model.result.validation or 0.0))
        for scores in groups.values():
            squares += float(np.var(scores)) * len(scores)
            df += len(scores) - 1
    return math.sqrt(squares / df) if df else None
