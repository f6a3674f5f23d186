"""The figures of a check with queries and a gallery; histograms and noise against loops."""

from __future__ import annotations

import io
import json
import math
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data import tiny_layouts
from rich.console import Console

from dmltune.check.configurations import Configuration
from dmltune.check.document import CheckDocument, DistanceHistogram, ModelResult
from dmltune.check.measured_models import MeasuredModel, summed_histogram
from dmltune.check.measurements import measured, seed_noise
from dmltune.check.plan import CheckPlan, PlannedModel
from dmltune.core.clustering import cluster, clustering_metrics
from dmltune.data.images import ImageSet
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.report.check_page import write_page
from dmltune.report.check_table import check_table
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.train.measurement import read_measurement
from dmltune.train.orders import Order
from dmltune.train.run_series import RunSeries
from dmltune.train.test_access import open_test
from dmltune.train.trial import run_trial

SPACE = """
data: {name: inshop, size: 24}
backbone: resnet20
embedding: {dim: 8}
loss: contrastive
batch: {size: 8, samples_per_class: 2}
optimizer: {lr: 0.01}
max_steps: 6
validate_every: 3
"""


@dataclass(frozen=True)
class Checked:
    plan: CheckPlan
    series: RunSeries
    images: ImageSet
    document: CheckDocument


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """Two configurations × 2 folds × 2 seeds on a tiny In-Shop, trained here; one model is missing."""
    root = tmp_path_factory.mktemp("inshop")
    (root / "tiny.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", root, 16, 4)
    locations = Locations(Store.at(root / "store"), root)
    ours, base = (load_experiment(str(root / "tiny.yaml"), [f"loss.neg_margin={m}"]) for m in (0.5, 0.9))
    configurations = (Configuration("ours", ("winner",), ours), Configuration("base", ("baseline",), base))
    plan = CheckPlan("fair", 2, 2, "base", configurations)
    opened = open_test(ours, locations, kind="check", study="tiny", why="a test")
    series = RunSeries(locations, "tiny", "tiny", ours, "0" * 16, "check")
    for member in plan.members()[:-1]:
        folder = series.member_folder(member.name)
        order = Order.of(member.name, member.experiment, folder, locations, opening=opened.entry)
        report = list(run_trial(order, torch.device("cpu")))[-1]
        result = {"run_id": member.name, "step": report.best_step, "validation": report.best_score}
        series.store_result(member.name, result)
    about = CheckDocument(
        name="tiny",
        space_name="tiny",
        data="inshop",
        fingerprint="0",
        protocol="fair",
        folds=2,
        repeats=2,
        baseline="base",
        failed={plan.members()[-1].name: "diverged"},
        openings=(opened.entry,),
    )
    lines: list[str] = []
    document = measured(about, plan, series, opened.images, None, lines.append)
    assert len(lines) == 2
    return Checked(plan, series, opened.images, document)


def queries_and_gallery(images: ImageSet) -> tuple[list[int], list[int]]:
    assert images.query_N is not None
    return np.flatnonzero(images.query_N).tolist(), np.flatnonzero(~images.query_N).tolist()


def precision(emb_ND: np.ndarray[Any, Any], images: ImageSet, q: int) -> tuple[float, int]:
    """Average precision of a query and the class of its nearest gallery image, by loops."""
    labels, (_, gallery) = images.labels_N.tolist(), queries_and_gallery(images)
    order = sorted(gallery, key=lambda g: (((emb_ND[g] - emb_ND[q]) ** 2).sum(), g))
    r, hits, total = sum(labels[g] == labels[q] for g in gallery), 0, 0.0
    for place, g in enumerate(order[:r], start=1):
        if labels[g] == labels[q]:
            hits += 1
            total += hits / place
    return total / r, labels[order[0]]


def test_every_figure_is_of_queries_against_the_gallery(checked: Checked) -> None:
    images, document = checked.images, checked.document
    labels, (queries, _) = images.labels_N.tolist(), queries_and_gallery(images)
    by_key: dict[str, dict[tuple[int, int], list[float]]] = {"ours": {}, "base": {}}
    taken: dict[str, list[tuple[int, int]]] = {"ours": [], "base": []}
    for member in checked.plan.members()[:-1]:
        folder = checked.series.member_folder(member.name)
        emb_ND = read_measurement(folder, "emb")[0]["emb"].double().numpy()
        figures = [precision(emb_ND, images, q) for q in queries]
        by_key[member.key][member.fold, member.seed] = [score for score, _ in figures]
        taken[member.key] += [(labels[q], near) for q, (_, near) in zip(queries, figures, strict=True)]
    assert document.per_class is not None
    for result in document.configurations:
        own = by_key[result.key]
        assert len(result.models) == len(own)
        for model in result.models:
            expected = statistics.fmean(own[model.fold, model.seed])
            assert model.test["map_at_r"] == pytest.approx(expected, abs=1e-6)
        for label in range(images.num_classes):
            scores = [
                score[at] for score in own.values() for at, q in enumerate(queries) if labels[q] == label
            ]
            mean = document.per_class.scores[result.key][label]
            assert mean == pytest.approx(statistics.fmean(scores), abs=1e-6)
        wrong = [pair for pair in taken[result.key] if pair[0] != pair[1]]
        first = document.confusions[result.key][0]
        pair = (images.class_names.index(first.of), images.class_names.index(first.taken_for))
        assert first.count == wrong.count(pair) == max(map(wrong.count, wrong))
        queries_of_class = sum(of == pair[0] for of, _ in taken[result.key])
        assert first.share == pytest.approx(first.count / queries_of_class)
    assert list(document.per_class.images) == [labels.count(label) for label in range(images.num_classes)]
    assert document.queries_without_match == 0


def test_only_models_of_the_same_fold_and_seed_are_compared(checked: Checked) -> None:
    ours, base = checked.document.configurations
    assert (len(ours.models), len(base.models)) == (4, 3)
    base_scores = {(model.fold, model.seed): model.test["map_at_r"] for model in base.models}
    gaps = [
        (model.test["map_at_r"] or 0) - (base_scores[model.fold, model.seed] or 0)
        for model in ours.models
        if (model.fold, model.seed) in base_scores
    ]
    versus = ours.versus_baseline
    assert versus is not None
    assert versus.models == 3
    assert versus.difference == pytest.approx(statistics.fmean(gaps), abs=1e-6)
    assert versus.p_holm == versus.p  # one test
    assert base.versus_baseline is None
    assert (ours.ensemble["map_at_r"].collections, ours.ensemble["map_at_r"].dim) == (4, 16)
    assert base.ensemble["map_at_r"].collections == 2
    assert checked.document.search_score is None


def test_the_document_is_json_and_can_be_shown(checked: Checked, tmp_path: Path) -> None:
    text = json.dumps(checked.document.to_dict(), allow_nan=False)
    assert CheckDocument.from_dict(json.loads(text)) == checked.document
    assert check_table(checked.document)
    assert "<html" in write_page(checked.document, tmp_path).read_text()


def test_clustering_is_measured_from_the_stored_points_once(checked: Checked) -> None:
    plan, lines = replace(checked.plan, clustering=True), list[str]()
    assert "nmi" not in checked.document.configurations[0].single
    document = measured(checked.document, plan, checked.series, checked.images, None, lines.append)
    ours = document.configurations[0]
    labels_N = torch.from_numpy(checked.images.labels_N)
    for model in ours.models:
        emb_ND = read_measurement(checked.series.member_folder(model.member), "emb")[0]["emb"]
        expected = clustering_metrics(labels_N, cluster(emb_ND, checked.images.num_classes, 0))
        assert {name: model.test[name] for name in ("nmi", "f1")} == pytest.approx(expected)
    scores = [model.test["nmi"] or 0.0 for model in ours.models]
    assert ours.single["nmi"].mean == pytest.approx(statistics.fmean(scores))
    assert sum("k-means" in line for line in lines) == 7
    lines.clear()
    again = measured(checked.document, plan, checked.series, checked.images, None, lines.append)
    assert again.configurations == document.configurations
    assert not [line for line in lines if "k-means" in line]
    table = Console(width=80, file=(text := io.StringIO()))
    for part in check_table(document):
        table.print(part)
    assert "k-means, 16 clusters" in text.getvalue()
    file = checked.series.member_folder(ours.models[0].member) / "clustering.json"
    file.write_text("{}")
    with pytest.raises(UserError, match=r"clustering\.json is damaged\. Remove it"):
        measured(checked.document, plan, checked.series, checked.images, None, lines.append)
    file.unlink()


def test_histograms_of_models_are_added_without_losing_a_pair() -> None:
    """Lip points are shorter than 1, so each model has edges of its own."""
    one = {"edges": [0.0, 0.5, 1.0], "positive": [3, 1], "negative": [0, 5]}
    two = {"edges": [0.0, 1.0, 2.0], "positive": [2, 2], "negative": [1, 7]}
    assert summed_histogram([one, two]) == DistanceHistogram((0.0, 1.0, 2.0), (6, 2), (6, 7))


def a_model(fold: int, validation: float) -> MeasuredModel:
    member = PlannedModel("a", "a", fold, 0, load_experiment("glyphs"))
    none = torch.zeros(0)
    return MeasuredModel(member, ModelResult("a", fold, 0, "", 0, validation, {}), {}, {}, none, none, none)


def test_the_noise_of_seeds_is_the_variance_between_models_of_one_configuration_and_fold() -> None:
    scores = {("a", 0): [0.1, 0.3, 0.2], ("a", 1): [0.6, 0.8], ("b", 0): [0.9]}
    models = [[a_model(fold, v) for (key, fold), vs in scores.items() if key == k for v in vs] for k in "ab"]
    variances = [statistics.variance(vs) for vs in scores.values() if len(vs) > 1]
    expected = math.sqrt((2 * variances[0] + 1 * variances[1]) / 3)
    assert seed_noise(models) == pytest.approx(expected)
    assert seed_noise([[a_model(0, 0.1), a_model(1, 0.2)]]) is None
