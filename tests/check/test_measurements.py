"""The figures of a check, where queries ask a gallery; histograms and noise against loops."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data import tiny_layouts

from dmltune.check.configurations import Configuration
from dmltune.check.measurements import _distances, plain, results, seed_noise
from dmltune.check.plan import CheckPlan
from dmltune.data.images import ImageSet
from dmltune.experiment import load_experiment
from dmltune.report.check_page import write_page
from dmltune.report.check_table import check_table
from dmltune.store import Store
from dmltune.train.measurement import read
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


@pytest.fixture(scope="module")
def checked(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[CheckPlan, RunSeries, ImageSet, dict[str, Any]]:
    """Two configurations × 2 folds × 2 seeds on a tiny In-Shop, trained here; one model is missing."""
    root = tmp_path_factory.mktemp("inshop")
    (root / "tiny.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", root, 16, 4)
    store = Store.at(root / "store")
    ours, base = (load_experiment(str(root / "tiny.yaml"), [f"loss.neg_margin={m}"]) for m in (0.5, 0.9))
    configurations = (Configuration("ours", ("winner",), ours), Configuration("base", ("baseline",), base))
    plan = CheckPlan("fair", 2, 2, "base", configurations)
    opened = open_test(ours, root, store, kind="check", study="tiny", why="a test")
    series = RunSeries(store, "tiny", "tiny", ours, "0" * 16, "check")
    for member in plan.members()[:-1]:
        folder = series.member_folder(member.name)
        order = Order(
            member.name, member.experiment.to_dict(), str(folder), str(root), opening=opened.entry.id
        )
        report = list(run_trial(order, torch.device("cpu")))[-1]
        kept = {"run_id": member.name, "step": report.best_step, "validation": report.best_score}
        series.keep(member.name, kept)
    said: list[str] = []
    document = plain(results(plan, series, opened.images, None, said.append))
    assert len(said) == 2
    return plan, series, opened.images, document


def asked(images: ImageSet) -> tuple[list[int], list[int]]:
    assert images.query_N is not None
    return np.flatnonzero(images.query_N).tolist(), np.flatnonzero(~images.query_N).tolist()


def precision(emb_ND: np.ndarray[Any, Any], images: ImageSet, q: int) -> tuple[float, int]:
    """Average precision of a query and the class of its nearest gallery image, by loops."""
    labels, (_, gallery) = images.labels_N.tolist(), asked(images)
    order = sorted(gallery, key=lambda g: (((emb_ND[g] - emb_ND[q]) ** 2).sum(), g))
    r, hits, total = sum(labels[g] == labels[q] for g in gallery), 0, 0.0
    for place, g in enumerate(order[:r], start=1):
        if labels[g] == labels[q]:
            hits += 1
            total += hits / place
    return total / r, labels[order[0]]


def test_queries_ask_the_gallery_in_every_figure(
    checked: tuple[CheckPlan, RunSeries, ImageSet, dict[str, Any]],
) -> None:
    plan, series, images, document = checked
    labels, (queries, _) = images.labels_N.tolist(), asked(images)
    by_key: dict[str, dict[tuple[int, int], list[float]]] = {"ours": {}, "base": {}}
    taken: dict[str, list[tuple[int, int]]] = {"ours": [], "base": []}
    for member in plan.members()[:-1]:
        emb_ND = read(series.member_folder(member.name), "emb")[0]["emb"].double().numpy()
        found = [precision(emb_ND, images, q) for q in queries]
        by_key[member.key][member.fold, member.seed] = [score for score, _ in found]
        taken[member.key] += [(labels[q], near) for q, (_, near) in zip(queries, found, strict=True)]
    for row in document["configurations"]:
        mine = by_key[row["key"]]
        assert len(row["models"]) == len(mine)
        for model in row["models"]:
            expected = statistics.fmean(mine[model["fold"], model["seed"]])
            assert model["test"]["map_at_r"] == pytest.approx(expected, abs=1e-6)
        per_class = document["per_class"][row["key"]]
        for label in range(images.num_classes):
            scores = [
                score[at] for score in mine.values() for at, q in enumerate(queries) if labels[q] == label
            ]
            assert per_class[label] == pytest.approx(statistics.fmean(scores), abs=1e-6)
        wrong = [pair for pair in taken[row["key"]] if pair[0] != pair[1]]
        first = document["confusions"][row["key"]][0]
        pair = (images.class_names.index(first["of"]), images.class_names.index(first["as"]))
        assert first["count"] == wrong.count(pair) == max(wrong.count(one) for one in wrong)
        assert first["share"] == pytest.approx(
            first["count"] / sum(of == pair[0] for of, _ in taken[row["key"]])
        )
    assert document["per_class"]["images"] == [labels.count(label) for label in range(images.num_classes)]
    assert document["queries_without_match"] == 0


def test_only_models_of_the_same_fold_and_seed_are_compared(
    checked: tuple[CheckPlan, RunSeries, ImageSet, dict[str, Any]],
) -> None:
    _, _, _, document = checked
    ours, base = document["configurations"]
    assert (len(ours["models"]), len(base["models"])) == (4, 3)
    there = {(model["fold"], model["seed"]): model["test"]["map_at_r"] for model in base["models"]}
    gaps = [
        model["test"]["map_at_r"] - there[model["fold"], model["seed"]]
        for model in ours["models"]
        if (model["fold"], model["seed"]) in there
    ]
    assert ours["versus_baseline"]["models"] == 3
    assert ours["versus_baseline"]["difference"] == pytest.approx(statistics.fmean(gaps), abs=1e-6)
    assert ours["versus_baseline"]["p_holm"] == ours["versus_baseline"]["p"]  # one question
    assert base["versus_baseline"] is None
    assert (ours["ensemble"]["map_at_r"]["collections"], ours["ensemble"]["map_at_r"]["dim"]) == (4, 16)
    assert base["ensemble"]["map_at_r"]["collections"] == 2
    assert document["search_score"] is None


def test_the_document_is_json_and_can_be_shown(
    checked: tuple[CheckPlan, RunSeries, ImageSet, dict[str, Any]], tmp_path: Path
) -> None:
    plan, _, _, found = checked
    document = {
        "name": "tiny",
        "search": "",
        "space_name": "tiny",
        "data": "inshop",
        "fingerprint": "0",
        "protocol": "fair",
        "folds": 2,
        "repeats": 2,
        "metric": "map_at_r",
        "level": 0.95,
        "commit": "",
        "baseline": "base",
        "stopped": False,
        "versions": {},
        "openings": [],
        "again": False,
        "failed": {plan.members()[-1].name: "diverged"},
        **found,
    }
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert check_table(document)
    assert "<html" in write_page(document, tmp_path).read_text()


def test_histograms_of_models_are_added_without_losing_a_pair() -> None:
    """Lip points are shorter than 1, so each model has edges of its own."""
    one = {"edges": [0.0, 0.5, 1.0], "positive": [3, 1], "negative": [0, 5]}
    two = {"edges": [0.0, 1.0, 2.0], "positive": [2, 2], "negative": [1, 7]}
    found = _distances([one, two])
    assert found["edges"] == [0.0, 1.0, 2.0]
    assert found["positive"] == [6, 2]
    assert found["negative"] == [6, 7]


class Kept:
    """A model of a fold with its validation score."""

    def __init__(self, fold: int, validation: float) -> None:
        self.member = type("Member", (), {"fold": fold})
        self.kept = {"validation": validation}


def test_the_noise_of_seeds_is_what_is_left_between_models_of_one_configuration_and_fold() -> None:
    scores = {("a", 0): [0.1, 0.3, 0.2], ("a", 1): [0.6, 0.8], ("b", 0): [0.9]}
    models = [[Kept(fold, v) for (key, fold), vs in scores.items() if key == k for v in vs] for k in "ab"]
    variances = [statistics.variance(vs) for vs in scores.values() if len(vs) > 1]
    expected = math.sqrt((2 * variances[0] + 1 * variances[1]) / 3)
    assert seed_noise(models) == pytest.approx(expected)  # type: ignore[arg-type]
    assert seed_noise([[Kept(0, 0.1), Kept(1, 0.2)]]) is None  # type: ignore[list-item]


def test_what_json_cannot_say_is_null() -> None:
    assert plain({"a": (math.nan, np.float64(0.5), [math.inf]), "b": np.int64(3)}) == {
        "a": [None, 0.5, [None]],
        "b": 3,
    }
