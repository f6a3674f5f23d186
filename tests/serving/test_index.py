"""Indexes: exact by a slow oracle, ivf and pq by recall, and files that are damaged or of another model."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

import dmltune
from dmltune.core import checkpoint
from dmltune.errors import UserError
from dmltune.serving import LoadedModel
from dmltune.serving.index import ImageIndex
from dmltune.serving.listing import ImageFile
from dmltune.serving.model import Vectors
from dmltune.serving.search_structures import RECALL, build, recipe, shared

from .conftest import NAME, Shop

COUNT, DIM = 1500, 16


@pytest.fixture(scope="module")
def model(shop: Shop) -> LoadedModel:
    return dmltune.load(NAME, store=shop.store)


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(60, DIM))[generator.integers(0, 60, COUNT)]
    points = points + 0.5 * generator.normal(size=(COUNT, DIM))
    made: Vectors = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return made


def index_of(model: LoadedModel, vectors: Vectors, kind: str) -> ImageIndex:
    files = [ImageFile(f"/photos/{number}.jpg", f"kind {number % 7}") for number in range(len(vectors))]
    return ImageIndex.of(model, "", vectors, files, kind, 10)


def test_an_exact_index_gives_the_neighbours_of_a_loop(model: LoadedModel, vectors: Vectors) -> None:
    index = index_of(model, vectors, "exact")
    assert (index.facts.recall, index.facts.queries) == (1.0, 0)
    for query, found in zip(vectors[:20] + 0.01, index.search(vectors[:20] + 0.01, 5), strict=True):
        distances = [float(np.sqrt(((query - row).astype(np.float64) ** 2).sum())) for row in vectors]
        expected = sorted(range(COUNT), key=distances.__getitem__)[:5]
        assert [neighbour.path for neighbour in found] == [f"/photos/{place}.jpg" for place in expected]
        assert [neighbour.rank for neighbour in found] == [1, 2, 3, 4, 5]
        for neighbour, place in zip(found, expected, strict=True):
            assert neighbour.distance == pytest.approx(distances[place], abs=1e-3)
            assert neighbour.similarity == pytest.approx(1 - distances[place] ** 2 / 2, abs=1e-3)


def test_neighbours_are_the_same_read_in_order_or_by_place(model: LoadedModel, vectors: Vectors) -> None:
    (found,) = index_of(model, vectors, "exact").search(vectors[7:8], 6)
    assert list(found) == [found[place] for place in range(6)] == found[:]
    assert (found[0].path, found[0].distance, found[0].similarity) == ("/photos/7.jpg", 0.0, 1.0)
    assert next(iter(reversed(found))) == found[-1]
    assert list(found[2:2]) == []


@pytest.mark.parametrize("kind", ["ivf", "pq"])
def test_the_recall_that_is_printed_is_that_of_the_stored_index(
    kind: str, model: LoadedModel, vectors: Vectors, tmp_path: Path
) -> None:
    index_of(model, vectors, kind).save(tmp_path / "a.index")
    index = ImageIndex.load(tmp_path / "a.index")
    sample = np.sort(np.random.default_rng(0).permutation(COUNT)[: index.facts.queries])
    exact = index_of(model, vectors, "exact")

    def numbers(of: ImageIndex) -> np.ndarray:
        rows = of.search(vectors[sample], 10)
        return np.array([[int(Path(each.path).stem) for each in row] for row in rows])

    assert shared(numbers(index), numbers(exact)) == pytest.approx(index.facts.recall, abs=0.01)
    assert index.facts.recall >= (RECALL if kind == "ivf" else 0.2)
    assert index.facts.probes >= 1


def test_recall_is_the_mean_share_of_exact_neighbours() -> None:
    assert shared(np.array([[1, 2, -1], [4, 5, 6]]), np.array([[2, 1, 3], [6, 5, 4]])) == pytest.approx(5 / 6)


@pytest.mark.parametrize(("count", "dim", "kind"), [(1000, 7, "pq"), (100, 16, "ivf"), (2_000, 6, "pq")])
def test_a_structure_fits_few_vectors_and_odd_sizes(count: int, dim: int, kind: str) -> None:
    points = np.random.default_rng(1).normal(size=(count, dim)).astype(np.float32)
    assert build(points, kind).index.ntotal == count
    assert recipe(count, dim, kind).startswith("IVF")


def test_few_images_are_told_to_be_exact() -> None:
    with pytest.raises(UserError, match=r"--kind pq needs 1,000 images or more; got 12. Use --kind exact"):
        build(np.zeros((12, 4), dtype=np.float32), "pq")


@pytest.mark.parametrize("kind", ["exact", "ivf"])
@pytest.mark.parametrize("rerank", ["k-reciprocal", "aqe"])
def test_re_ranked_neighbours_are_candidates_with_true_distances(
    kind: str, rerank: str, model: LoadedModel, vectors: Vectors
) -> None:
    index = index_of(model, vectors, kind)
    (plain,), (found,) = index.search(vectors[5:6], 30), index.search(vectors[5:6], 30, rerank)
    assert len({each.path for each in found}) == 30
    assert len({each.path for each in plain} & {each.path for each in found}) >= 10
    for each in found:
        true = np.linalg.norm(vectors[int(Path(each.path).stem)] - vectors[5])
        assert each.distance == pytest.approx(float(true), abs=1e-3)


def test_an_index_is_private_and_belongs_to_its_model(
    model: LoadedModel, vectors: Vectors, tmp_path: Path
) -> None:
    file = tmp_path / "a.index"
    files = [ImageFile("/photos/\udcff.jpg", "a"), *(ImageFile(f"{n}", "b") for n in range(9))]
    ImageIndex.of(model, "", vectors[:10], files, "exact", 10).save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    index = ImageIndex.load(file)
    assert index.files == files
    index.require(model)
    changed = json.loads(json.dumps(model.description.to_dict()))
    changed.pop("format")
    other = LoadedModel(
        "other",
        model.embedder,
        type(model.description).from_dict(changed | {"crop_margin": 1.0}),
        model.device,
    )
    with pytest.raises(UserError, match=r"the index was made by 'shop' .* not by 'other'"):
        index.require(other)


@pytest.mark.parametrize("damage", ["cut", "flip", "other", "empty", "text", "missing"])
def test_a_file_that_is_no_index_is_one_line(
    damage: str, model: LoadedModel, vectors: Vectors, tmp_path: Path
) -> None:
    file = tmp_path / "a.index"
    ImageIndex.of(model, "", vectors[:4], [ImageFile("a", "")] * 4, "exact", 10).save(file)
    content = file.read_bytes()
    if damage == "other":
        checkpoint.write(file, {}, {"some": "thing"})
    elif damage == "missing":
        file.unlink()
    else:
        flipped = bytes([*content[:-3], content[-3] ^ 1, *content[-2:]])
        file.write_bytes({"cut": content[:-9], "flip": flipped, "empty": b"", "text": b"hello"}[damage])
    with pytest.raises(UserError) as error:
        ImageIndex.load(file)
    assert "a.index" in str(error.value)
    assert "\n" not in str(error.value)
