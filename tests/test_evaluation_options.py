"""`dmltune evaluate --clustering --pairs`: a space in which nothing learns, on a tiny copy of its data."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data import tiny_layouts

import dmltune
from dmltune.cli.evaluate import facts, tables
from dmltune.cli.output import Output
from dmltune.core.clustering import cluster, clustering_metrics
from dmltune.core.verification import accuracy, tar_at_far
from dmltune.data import catalog
from dmltune.data.alignment import LANDMARKS, TEMPLATE_5, aligned_face, similarity
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet, Ints, Pixels, from_pil, to_pil
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.train.build import build_embedder

FROZEN = """
data: {name: inshop, size: 24, margin: 1.0}
backbone: {name: resnet20, frozen_until: all}
embedding: {dim: none}
loss: contrastive
max_steps: 100
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "still.yaml").write_text(FROZEN)
    tiny_layouts.write("inshop", tmp_path, 6, 4)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def measured(place: Path, **options: Any) -> dict[str, Any]:
    return dmltune.evaluate("./still.yaml", store=Store.at(place / "runs"), data_root=place, **options)


def images_of(place: Path) -> ImageSet:
    return replace(catalog.load("inshop", "test", place), margin=1.0)


def points(images: ImageSet) -> torch.Tensor:
    torch.manual_seed(0)
    net = build_embedder(load_experiment("./still.yaml"), "l2").eval()
    with torch.no_grad():
        batches = evaluation_batches(images, range(len(images)), 24)
        return torch.cat([net(batch) for batch, _ in batches])


def pair_list(place: Path, count: int = 40) -> tuple[Path, list[tuple[int, int]]]:
    """Every second of one class: images of the test half, written out as they are."""
    test, rng = images_of(place), np.random.default_rng(0)
    for index, pixels in enumerate(test.read(range(len(test)))):
        to_pil(pixels).save(place / f"{index}.png")
    chosen: list[tuple[int, int]] = []
    while len(chosen) < count:
        a, b = (int(index) for index in rng.choice(len(test), 2, replace=False))
        if (test.labels_N[a] == test.labels_N[b]) == (len(chosen) % 2 == 0):
            chosen.append((a, b))
    rows = [f"{a}.png,{b}.png,{1 - number % 2}" for number, (a, b) in enumerate(chosen)]
    (place / "pairs.csv").write_text("\n".join(["left,right,same", *rows]) + "\n")
    return place / "pairs.csv", chosen


def test_clustering_is_that_of_k_means_with_a_cluster_for_every_class(place: Path) -> None:
    images = images_of(place)
    labels = torch.from_numpy(images.labels_N)
    expected = clustering_metrics(labels, cluster(points(images), images.num_classes, seed=0))
    assert measured(place, clustering=True)["clustering"] == pytest.approx(expected, abs=1e-9)


def test_pairs_are_judged_by_the_cosine_of_their_points(place: Path) -> None:
    path, chosen = pair_list(place)
    emb = torch.nn.functional.normalize(points(images_of(place)).double())
    scores = [float(emb[a] @ emb[b]) for a, b in chosen]
    same = [number % 2 == 0 for number in range(len(chosen))]
    pairs = measured(place, pairs=path)["pairs"]
    assert (pairs["accuracy"], pairs["accuracy_sd"]) == pytest.approx(accuracy(scores, same), abs=1e-12)
    assert list(pairs["tar_at_far"]) == ["0.001", "0.0001", "1e-05"]
    assert list(pairs["tar_at_far"].values()) == tar_at_far(scores, same, (1e-3, 1e-4, 1e-5))
    assert (pairs["same"], pairs["other"], pairs["folds"]) == (20, 20, 10)
    assert "landmarks" not in pairs


def test_pairs_with_landmarks_beside_them_are_aligned_and_seen_whole(place: Path) -> None:
    path, chosen = pair_list(place)
    test, face = images_of(place), 0.3 * TEMPLATE_5 + (9 + 3j)
    text = " ".join(f"{z.real:.6f} {z.imag:.6f}" for z in face)
    (place / LANDMARKS).write_text("".join(f"{index}.png {text}\n" for index in range(len(test))))
    found = measured(place, pairs=path, overrides=("data.margin=1.5",))
    a_N, b_N = similarity(face[None])

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        whole = map(to_pil, test.read(indices))
        return [from_pil(aligned_face(image, complex(a_N[0]), complex(b_N[0]), 24)) for image in whole]

    emb = torch.nn.functional.normalize(points(test.with_reader(read)).double())
    scores, same = [float(emb[a] @ emb[b]) for a, b in chosen], [n % 2 == 0 for n in range(len(chosen))]
    assert found["pairs"]["accuracy"] == pytest.approx(accuracy(scores, same)[0], abs=1e-12)
    assert list(found["pairs"]["tar_at_far"].values()) == tar_at_far(scores, same, (1e-3, 1e-4, 1e-5))
    count = found["pairs"]["images"]
    assert facts(found)[-2] == f"the {count} images of the pairs are aligned by {place / LANDMARKS}"


def test_without_the_options_the_document_has_neither(place: Path) -> None:
    assert not {"clustering", "pairs"} & set(measured(place))


def test_a_mistake_in_the_list_is_an_error_before_test_classes_are_opened(place: Path) -> None:
    path, _ = pair_list(place, count=8)
    with pytest.raises(
        UserError, match=r"must have 10 pairs or more, of both kinds; got 4 of the same and 4"
    ):
        measured(place, pairs=path)
    path.write_text("left,right,same\n" + "0.png,1.png,1\n" * 12)
    with pytest.raises(UserError, match="got 12 of the same and 0 of two"):
        measured(place, pairs=path)
    path.write_text("left,right,same\n" + "0.png,gone.png,1\n" * 6 + "0.png,1.png,0\n" * 6)
    with pytest.raises(UserError, match=r"gone\.png is listed in"):
        measured(place, pairs=path)
    assert not (place / "runs" / "test_ledger.jsonl").exists()


def test_it_uses_the_threads_of_the_environment_and_restores_the_number(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        measured(place, progress=lambda done, total: threads.add(torch.get_num_threads()))
        assert (threads, torch.get_num_threads()) == ({1}, 3)
    finally:
        torch.set_num_threads(before)


def test_the_tables_have_the_figures_and_fit_80_columns() -> None:
    result = {
        "name": "people",
        "split": "test",
        "data": "faces",
        "images": 60_502,
        "classes": 11_316,
        "trial": "",
        "step": 0,
        "run_id": "",
        "map_at_r": 0.31,
        "note": "nothing here learns",
        "clustering": {"nmi": 0.9012, "f1": 0.3499},
        "pairs": {
            "same": 3000,
            "other": 3000,
            "accuracy": 0.98765,
            "accuracy_sd": 0.0051,
            "folds": 10,
            "tar_at_far": {"0.001": 0.91, "0.0001": 0.85, "1e-05": 0.85},
        },
    }
    stream = io.StringIO()
    Output("table", stream).show(*tables(result))
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    for expected in (
        "11,316 clusters of k-means, % people",
        "NMI 90.1",
        "3,000 pairs of the same and 3,000 of two, % people",
        "accuracy, 10 folds 98.8 ± 0.5",
        "TAR at FAR 0.1 % 91.0",
        "TAR at FAR 0.001 % (0 of 3,000) 85.0",
    ):
        assert expected in lines, expected
    assert max(len(line.rstrip()) for line in stream.getvalue().splitlines()) <= 80
