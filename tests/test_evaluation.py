"""`dmltune.evaluate` where a data set has queries and a gallery, against loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from data import tiny_layouts

from dmltune import evaluation
from dmltune.core.checkpoint import ModelDescription
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.train import inference
from dmltune.train.build import build_embedder, validate_experiment

SPACE = """
data: {name: inshop, size: 24}
backbone: resnet20
embedding: {dim: 8}
loss: contrastive
max_steps: 100
"""


def image_set(labels: list[int], query: list[bool] | None) -> ImageSet:
    def read(indices: Ints, side: int | None) -> list[Pixels]:
        raise AssertionError("the metrics read no image")

    names = tuple(map(str, range(max(labels) + 1)))
    query_N = None if query is None else np.array(query)
    return ImageSet("memory", "test", np.array(labels), names, "0" * 16, read, query_N=query_N)


def by_loops(
    emb: list[list[float]], labels: list[int], asks: list[bool], answers: list[bool]
) -> dict[str, float]:
    """P@1, P@R and MAP@R of the queries that have a match, and how many have none."""
    sums, counted, without = np.zeros(3), 0, 0
    for q in range(len(emb)):
        if not asks[q]:
            continue
        others = [g for g in range(len(emb)) if answers[g] and g != q]
        near = sorted(
            others, key=lambda g: (sum((a - b) ** 2 for a, b in zip(emb[q], emb[g], strict=True)), g)
        )
        matches = [labels[g] == labels[q] for g in near]
        r = sum(matches)
        if r == 0:
            without += 1
            continue
        precision = [sum(matches[: i + 1]) / (i + 1) for i in range(r)]
        counted += 1
        sums += [
            matches[0],
            sum(matches[:r]) / r,
            sum(p for p, hit in zip(precision, matches[:r], strict=True) if hit) / r,
        ]
    names = ("precision_at_1", "r_precision", "map_at_r")
    found = dict(zip(names, (sums / max(1, counted)).tolist(), strict=True))
    return {**found, "queries_without_match": float(without)}


@pytest.mark.parametrize("seed", range(5))
def test_queries_are_ranked_against_the_gallery_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, query = rng.integers(0, 5, 40).tolist(), (rng.random(40) < 0.4).tolist()
    emb_ND = torch.from_numpy(rng.normal(size=(40, 3)))
    chosen = rng.permutation(40)[:30]
    images = image_set(labels, query)
    found = inference.retrieval(emb_ND[torch.from_numpy(chosen)], images, chosen)
    points, kinds = emb_ND[torch.from_numpy(chosen)].tolist(), [labels[i] for i in chosen]
    asks = [query[i] for i in chosen]
    expected = by_loops(points, kinds, asks, [not ask for ask in asks])
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_without_queries_every_image_asks_all_others() -> None:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 6, 30).tolist()
    emb_ND = torch.from_numpy(rng.normal(size=(30, 3)))
    found = inference.retrieval(emb_ND, image_set(labels, None), range(30))
    expected = by_loops(emb_ND.tolist(), labels, [True] * 30, [True] * 30)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


class OneRun:
    """In place of the tracker: a store with one run that has a model."""

    logged: dict[str, float] = {}

    def __init__(self, store: Store) -> None:
        self.client = None

    def find(self, name: str) -> Any:
        return SimpleNamespace(
            info=SimpleNamespace(run_id="1"), data=SimpleNamespace(tags={"dmltune.search": name})
        )

    def model_folder(self, run_id: str) -> Path:
        return Path("unused")

    def log(self, run_id: str, step: int, numbers: dict[str, float]) -> None:
        OneRun.logged = numbers

    def log_file(self, run_id: str, path: Path) -> None:
        assert path.stat().st_size > 0


def test_in_shop_is_evaluated_queries_against_gallery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", tmp_path, 6, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    experiment = load_experiment(str(tmp_path / "tiny.yaml"))
    torch.manual_seed(0)
    embedder = build_embedder(experiment, "l2").eval()
    about = ModelDescription(
        experiment=experiment.to_dict(),
        data="0" * 16,
        step=10,
        validation={},
        crop_margin=1.0,
        normalise="l2",
        **inference.inference_settings(experiment, embedder),
    )
    monkeypatch.setattr(evaluation, "Tracker", OneRun)
    monkeypatch.setattr(inference.checkpoint, "load_model", lambda *given: (embedder.state_dict(), about))

    document = evaluation.evaluate("tiny", split="test", store=Store(tmp_path), data_root=tmp_path)

    test = catalog.load("inshop", "test", tmp_path)
    assert test.query_N is not None
    with torch.no_grad():
        batches = [(embedder(batch), batch) for batch, _ in evaluation_batches(test, range(len(test)), 24)]
    asks, labels = test.query_N.tolist(), test.labels_N.tolist()
    answers = [not ask for ask in asks]
    expected = by_loops(torch.cat([emb for emb, _ in batches]).double().tolist(), labels, asks, answers)
    assert {name: document[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    raw = torch.cat([batch[:, :1].flatten(1) for _, batch in batches]).double() / 255
    expected = by_loops(raw.tolist(), labels, asks, answers)
    assert document["raw_pixels"]["map_at_r"] == pytest.approx(expected["map_at_r"], abs=1e-6)
    assert (document["images"], document["queries"], document["gallery"]) == (24, 6, 18)
    assert OneRun.logged["test_map_at_r"] == pytest.approx(document["map_at_r"])


FROZEN = """
data: {name: inshop, size: 24, margin: 1.0}
backbone: {name: resnet20, frozen_until: all}
embedding: {dim: none}
loss: contrastive
max_steps: 100
"""


class NoRun:
    """In place of the tracker: an empty store, which nothing may be written to."""

    def __init__(self, store: Store) -> None:
        pass

    def find(self, name: str) -> None:
        return None

    def names(self) -> list[str]:
        return ["older"]


@pytest.fixture
def own_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`still` learns nothing, `learning` does; the working directory holds them."""
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "still.yaml").write_text(FROZEN)
    (tmp_path / "search_spaces" / "learning.yaml").write_text(SPACE)
    tiny_layouts.write("inshop", tmp_path, 6, 4)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluation, "Tracker", NoRun)
    return tmp_path


def test_a_space_in_which_nothing_learns_is_evaluated_on_the_test_classes(own_spaces: Path) -> None:
    document = evaluation.evaluate("still", store=Store(own_spaces), data_root=own_spaces)

    test = replace(catalog.load("inshop", "test", own_spaces), margin=1.0)
    torch.manual_seed(0)
    net = build_embedder(load_experiment("still"), "l2").eval()
    with torch.no_grad():
        batches = [
            net.backbone((b / 255 - 0.5) / 0.5) for b, _ in evaluation_batches(test, range(len(test)), 24)
        ]
    assert test.query_N is not None
    asks = test.query_N.tolist()
    points = torch.nn.functional.normalize(torch.cat(batches).mean((2, 3))).double().tolist()
    expected = by_loops(points, test.labels_N.tolist(), asks, [not ask for ask in asks])
    assert {name: document[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (document["name"], document["split"], document["run_id"]) == ("still", "test", "")
    assert "no class was trained or chosen on" in document["note"]


def test_the_split_of_a_space_may_be_asked_for(own_spaces: Path) -> None:
    document = evaluation.evaluate("still", split="validation", store=Store(own_spaces), data_root=own_spaces)
    assert (document["split"], document["classes"]) == ("validation", 2)


def test_neither_a_run_nor_a_space_that_is_ready_is_one_line(own_spaces: Path) -> None:
    messages = {
        "learning": "something has to learn first; dmltune train learning",
        "stil": "no search, training or run 'stil' in this store; did you mean 'still'?",
        "qqq": "no search, training or run 'qqq' in this store; there are older",
    }
    for name, message in messages.items():
        with pytest.raises(UserError) as caught:
            evaluation.evaluate(name, store=Store(own_spaces), data_root=own_spaces)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_space_in_which_nothing_learns_is_not_trained(own_spaces: Path) -> None:
    small = ["batch.size=4", "batch.samples_per_class=2"]
    with pytest.raises(UserError, match="nothing in this space learns"):
        validate_experiment(load_experiment("still", small), own_spaces)
    with pytest.raises(UserError, match=r"set backbone\.frozen_until, or drop data\.views"):
        validate_experiment(load_experiment("learning", ["data.views=2", *small]), own_spaces)
