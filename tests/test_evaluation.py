"""`dmltune.evaluate` where a data set has queries and a gallery, against loops."""

from __future__ import annotations

import getpass
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data import tiny_layouts
from support.stores import new_store
from support.tiny_spaces import IN_SHOP

import dmltune
from dmltune import tags
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.ledger import Ledger
from dmltune.models import find_model
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train import inference
from dmltune.train.build import build_embedder, validate_experiment
from dmltune.train.test_access import _test_half


def image_set(labels: list[int], query: list[bool] | None) -> ImageSet:
    def read(indices: Ints, side: int | None) -> list[Pixels]:
        raise AssertionError("the metrics read no image")

    names = tuple(map(str, range(max(labels) + 1)))
    query_N = None if query is None else np.array(query)
    return ImageSet("memory", "test", np.array(labels), names, "0" * 16, read, query_N=query_N)


def by_loops(
    emb: list[list[float]], labels: list[int], is_query: list[bool], in_gallery: list[bool]
) -> dict[str, float]:
    """P@1, P@R and MAP@R of the queries that have a match, and how many have none."""
    sums, counted, without = np.zeros(3), 0, 0
    for q in range(len(emb)):
        if not is_query[q]:
            continue
        others = [g for g in range(len(emb)) if in_gallery[g] and g != q]
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
    means = dict(zip(names, (sums / max(1, counted)).tolist(), strict=True))
    return {**means, "queries_without_match": float(without)}


def test_queries_are_ranked_against_the_gallery_only() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        labels, query = rng.integers(0, 5, 40).tolist(), (rng.random(40) < 0.4).tolist()
        emb_ND = torch.from_numpy(rng.normal(size=(40, 3)))
        chosen = rng.permutation(40)[:30]
        metrics = inference.retrieval(emb_ND[torch.from_numpy(chosen)], image_set(labels, query), chosen)
        points, kinds = emb_ND[torch.from_numpy(chosen)].tolist(), [labels[i] for i in chosen]
        is_query = [query[i] for i in chosen]
        expected = by_loops(points, kinds, is_query, [not value for value in is_query])
        assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_without_queries_every_image_is_compared_with_all_others() -> None:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 6, 30).tolist()
    emb_ND = torch.from_numpy(rng.normal(size=(30, 3)))
    metrics = inference.retrieval(emb_ND, image_set(labels, None), range(30))
    expected = by_loops(emb_ND.tolist(), labels, [True] * 30, [True] * 30)
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-12)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In-Shop, tiny. Nothing is left in the temporary folder."""
    (tmp_path / "tiny.yaml").write_text(IN_SHOP)
    tiny_layouts.write("inshop", tmp_path, 8, 4)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    new_store(tmp_path / "store")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def locations(root: Path) -> Locations:
    return Locations(Store.at(root / "store"), root)


def train(root: Path, name: str = "tiny") -> None:
    experiment = load_experiment(str(root / "tiny.yaml"), ["objective.protocol=halves"])
    list(dmltune.train(experiment, name=name, store=locations(root).store, data_root=root))


def test_a_training_is_evaluated_queries_against_gallery_and_logged_in_its_run(root: Path) -> None:
    train(root)
    store, progress = locations(root).store, list[tuple[int, int]]()
    document = dmltune.evaluate(
        "tiny", split="test", store=store, data_root=root, progress=lambda *count: progress.append(count)
    )

    test, tracker = catalog.load("inshop", "test", root), Tracker(store)
    embedder = find_model("tiny", tracker).embedder.eval()
    assert test.query_N is not None
    with torch.no_grad():
        batches = [(embedder(batch), batch) for batch, _ in evaluation_batches(test, range(len(test)), 24)]
    is_query, labels = test.query_N.tolist(), test.labels_N.tolist()
    in_gallery = [not value for value in is_query]
    expected = by_loops(
        torch.cat([emb for emb, _ in batches]).double().tolist(), labels, is_query, in_gallery
    )
    assert {name: document[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    raw = torch.cat([batch[:, :1].flatten(1) for _, batch in batches]).double() / 255
    expected = by_loops(raw.tolist(), labels, is_query, in_gallery)
    assert document["raw_pixels"]["map_at_r"] == pytest.approx(expected["map_at_r"], abs=1e-6)
    assert (document["images"], document["queries"], document["gallery"]) == (32, 8, 24)
    assert "skipped" not in document

    run = tracker.find("tiny")
    assert run is not None
    assert run.data.metrics["test_map_at_r"] == pytest.approx(document["map_at_r"])
    assert "distances_test.png" in {file.path for file in tracker.client.list_artifacts(run.info.run_id)}
    (entry,) = Ledger(store).entries("tiny")
    assert (entry.kind, entry.data, entry.run_ids) == ("evaluate", "inshop", (run.info.run_id,))
    assert progress == sorted(progress)
    assert progress[-1] == (32, 32)  # the number of images
    left = {path.name for path in (root / "temporary").iterdir()}
    assert left <= {f"torchinductor_{getpass.getuser()}"}  # torch's own; the command line avoids it


def test_a_model_takes_overrides_of_its_data_alone(root: Path) -> None:
    train(root)
    options = {"split": "test", "store": locations(root).store, "data_root": root}
    whole = dmltune.evaluate("tiny", **options)  # type: ignore[arg-type]
    few = dmltune.evaluate("tiny", ["data.classes=4"], **options)  # type: ignore[arg-type]
    assert (whole["classes"], few["classes"]) == (8, 4)
    with pytest.raises(UserError, match=r"takes overrides of data alone.*got 'loss.margin=1'"):
        dmltune.evaluate("tiny", ["loss.margin=1"], **options)  # type: ignore[arg-type]


def test_images_that_are_missing_or_unreadable_end_the_evaluation_or_are_skipped(root: Path) -> None:
    train(root)
    files = catalog.files("inshop", "test", root)[1]
    whole = dmltune.evaluate("tiny", split="test", store=locations(root).store, data_root=root)
    files[2].unlink()
    files[5].write_bytes(files[5].read_bytes()[:100])
    _test_half.cache_clear()
    with pytest.raises(UserError, match="missing; fetch it again") as error:
        dmltune.evaluate("tiny", split="test", store=locations(root).store, data_root=root)
    assert "\n" not in str(error.value)
    store = locations(root).store
    document = dmltune.evaluate("tiny", ["data.missing=skip"], split="test", store=store, data_root=root)
    assert document["images"] == len(files) - 2
    assert [
        name.endswith(file.name) for name, file in zip(document["skipped"], (files[2], files[5]), strict=True)
    ]
    assert document["fingerprint"] != whole["fingerprint"]


def test_a_run_without_its_model_or_its_winner_is_one_line(root: Path) -> None:
    train(root)
    tracker = Tracker(locations(root).store)
    run = tracker.find("tiny")
    assert run is not None

    def refused(message: str) -> None:
        with pytest.raises(UserError, match=message) as error:
            dmltune.evaluate("tiny", store=locations(root).store, data_root=root)
        assert "\n" not in str(error.value)

    for name in ("it's", "a\\", "x' or 1=1 --", "\udcff", "%", "a" * 100_000, "~nobody/x.yaml"):
        with pytest.raises(UserError) as error:
            dmltune.evaluate(name, store=locations(root).store, data_root=root)
        assert len(str(error.value).splitlines()) == 1
        assert len(str(error.value)) < 1000
    tracker.tag(run.info.run_id, {tags.WINNER: "nosuchrun"})
    refused("the winner of 'tiny' was deleted from MLflow")
    tracker.tag(run.info.run_id, {tags.WINNER: "", tags.ROLE: "check"})
    refused("'tiny' is a check; .* dmltune table tiny")
    tracker.tag(run.info.run_id, {tags.ROLE: "training"})
    (model,) = (root / "store" / "artifacts").rglob("model.safetensors")
    weights = bytearray(model.read_bytes())
    weights[len(weights) // 2] ^= 1
    model.write_bytes(weights)
    refused("model.safetensors")  # one bit flipped
    model.unlink()
    refused("cannot be read|no model")
    tracker.drop_model(run.info.run_id)
    refused("has no model .dropped: others did better.")


FROZEN = """
data: {name: inshop, size: 24, margin: 1.0}
backbone: {name: resnet20, frozen_until: all}
embedding: {dim: none}
loss: contrastive
max_steps: 100
"""


@pytest.fixture
def spaces(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`still` learns nothing, `learning` does; the working directory holds them."""
    (root / "search_spaces").mkdir()
    (root / "search_spaces" / "still.yaml").write_text(FROZEN)
    (root / "search_spaces" / "learning.yaml").write_text(IN_SHOP)
    monkeypatch.chdir(root)
    return root


def test_a_space_in_which_nothing_learns_is_evaluated_on_the_test_classes(spaces: Path) -> None:
    document = dmltune.evaluate("still", store=locations(spaces).store, data_root=spaces)

    test = replace(catalog.load("inshop", "test", spaces), margin=1.0)
    torch.manual_seed(0)
    net = build_embedder(load_experiment("still"), "l2").eval()
    with torch.no_grad():
        batches = [
            net.backbone((b / 255 - 0.5) / 0.5) for b, _ in evaluation_batches(test, range(len(test)), 24)
        ]
    assert test.query_N is not None
    is_query = test.query_N.tolist()
    points = torch.nn.functional.normalize(torch.cat(batches).mean((2, 3))).double().tolist()
    expected = by_loops(points, test.labels_N.tolist(), is_query, [not value for value in is_query])
    assert {name: document[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (document["name"], document["split"], document["run_id"]) == ("still", "test", "")
    assert "no class was trained or chosen on" in document["note"]
    assert Tracker(locations(spaces).store).names() == []  # no run is made

    document = dmltune.evaluate(
        "still", ["data.size=32"], split="validation", store=locations(spaces).store, data_root=spaces
    )
    assert (document["split"], document["classes"]) == ("validation", 3)


def test_neither_a_run_nor_a_space_that_is_ready_is_one_line(spaces: Path) -> None:
    train(spaces, "older")
    messages = {
        "learning": "something has to learn first; dmltune train learning",
        "stil": "no search, training or run 'stil' in this store; did you mean 'still'?",
        "qqq": "no search, training or run 'qqq' in this store; there are older",
    }
    for name, message in messages.items():
        with pytest.raises(UserError) as error:
            dmltune.evaluate(name, store=locations(spaces).store, data_root=spaces)
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_a_space_in_which_nothing_learns_is_not_trained(spaces: Path) -> None:
    small = ["batch.size=4", "batch.samples_per_class=2"]
    with pytest.raises(UserError, match="nothing in this space learns"):
        validate_experiment(load_experiment("still", small), locations(spaces))
    with pytest.raises(UserError, match=r"set backbone\.frozen_until, or drop data\.views"):
        validate_experiment(load_experiment("learning", ["data.views=2", *small]), locations(spaces))
