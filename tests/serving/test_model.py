"""`dmltune.load`: by name, run id, folder and file; the embeddings are those of evaluation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import dmltune
from dmltune.core.checkpoint import MODEL
from dmltune.errors import UserError
from dmltune.models import find_model
from dmltune.serving import LoadedModel
from dmltune.serving.stored import model_folder
from dmltune.tracking import Tracker
from dmltune.train.build import training_images
from dmltune.train.inference import embed

from .conftest import NAME, Shop


@pytest.fixture(scope="module")
def model(shop: Shop) -> LoadedModel:
    return dmltune.load(NAME, store=shop.store)


@pytest.fixture(scope="module")
def folder(shop: Shop) -> Path:
    with model_folder(NAME, shop.store) as place:
        return place  # in the store itself


def test_files_get_the_embeddings_of_evaluation_bit_for_bit(shop: Shop, model: LoadedModel) -> None:
    evaluated = find_model(NAME, Tracker(shop.store))
    images = training_images(evaluated.experiment, None)
    expected = embed(evaluated.embedder, images, range(len(images)), evaluated.experiment.data.size)
    files = sorted((shop.photos / "train").rglob("*.png"))
    assert np.array_equal(model.embed(files), expected.numpy())
    assert expected.std(0).amax() > 1e-3  # the model tells images apart


def test_paths_pillow_images_arrays_and_bytes_are_the_same_picture(shop: Shop, model: LoadedModel) -> None:
    file = shop.photos / "test" / "kind 7" / "1.png"
    expected = model.embed(file)
    image = Image.open(file)
    pixels = np.asarray(image.convert("RGB"))
    others = [str(file), file.read_bytes(), image, pixels, pixels.astype(np.float64) / 255, pixels[None]]
    for other in others:
        assert np.array_equal(model.embed(other), expected)
    assert model.embed([file, image, pixels]).shape == (3, model.dim)
    assert (expected.dtype, model.embed([]).shape) == (np.float32, (0, model.dim))


def test_a_folder_needs_neither_ray_nor_mlflow_nor_does_a_name(shop: Shop, folder: Path) -> None:
    file = shop.photos / "test" / "kind 7" / "1.png"
    script = f"""
import json, sys, dmltune
points = [dmltune.load(name, store={shop.root!r}).embed({str(file)!r}) for name in {[str(folder), NAME]!r}]
heavy = [name for name in ("ray", "mlflow", "optuna", "pandas", "matplotlib") if name in sys.modules]
print(json.dumps([heavy, [row.tolist() for row in points]]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy, (by_folder, by_name) = json.loads(done.stdout)
    assert heavy == []
    assert by_folder == by_name
    np.testing.assert_allclose(by_folder, dmltune.load(folder).embed(file), atol=1e-6)


def test_names_run_ids_folders_and_files_are_the_same_model(
    shop: Shop, folder: Path, model: LoadedModel
) -> None:
    for name in (shop.run_id(), str(folder), folder, folder / MODEL):
        other = dmltune.load(name, store=shop.store)
        assert other.fingerprint == model.fingerprint
    with torch.no_grad():
        next(other.embedder.parameters()).mul_(1.001)
    assert LoadedModel("changed", other.embedder, other.description, other.device).fingerprint != (
        model.fingerprint
    )


def test_preprocess_gives_what_the_network_takes(shop: Shop, model: LoadedModel) -> None:
    files = sorted(shop.photos.rglob("*.png"))[:5]
    images = model.preprocess(files)
    assert (images.dtype, tuple(images.shape)) == (torch.uint8, (5, 3, 32, 32))
    with torch.inference_mode():
        np.testing.assert_allclose(model.embedder(images).numpy(), model.embed(files), atol=1e-6)
    facts = model.facts()
    assert facts["crop_margin"] == pytest.approx(256 / 227)
    assert (facts["exif_rotation"], facts["image_size"], facts["dim"]) == (True, 32, 16)


def test_similarity_is_the_cosine_on_the_unit_sphere(model: LoadedModel) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 4, 8))
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    np.testing.assert_allclose(model.similarity(x, y), x @ y.T, atol=1e-6)
    with pytest.raises(UserError, match=r"must be \(N, D\) and \(M, D\)"):
        model.similarity(x, y[:, :3])


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "CMYK", "1", "I;16"])
def test_every_kind_of_picture_has_an_embedding(mode: str, model: LoadedModel, tmp_path: Path) -> None:
    grey = np.linspace(0, 255, 48 * 40).reshape(48, 40).astype(np.uint8)
    if mode == "I;16":
        image = Image.fromarray(grey.astype(np.uint16) * 257)
    else:
        image = Image.fromarray(grey).convert("RGB").convert(mode)
    file = tmp_path / f"x.{'jpg' if mode == 'CMYK' else 'png'}"
    image.save(file)
    point = model.embed(file)
    assert np.isfinite(point).all()
    if mode in ("L", "LA", "RGBA", "I;16"):  # nothing is lost
        np.testing.assert_allclose(point, model.embed(grey), atol=1e-6)


def test_photos_are_turned_upright(model: LoadedModel, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    Image.fromarray(np.rot90(pixels)).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(model.embed(tmp_path / "turned.png"), model.embed(pixels))


def test_what_cannot_be_read_is_named_or_skipped(shop: Shop, model: LoadedModel, tmp_path: Path) -> None:
    good, bad = shop.photos / "test" / "kind 7" / "1.png", tmp_path / "bad.jpg"
    bad.write_bytes(good.read_bytes()[:60])
    with pytest.raises(UserError, match=r"bad.jpg' cannot be read"):
        model.embed([good, bad])
    pictures = model.pictures([bad, good], skip=True)
    points = model.embed_pictures(pictures)
    assert list(pictures.unreadable) == [0]
    np.testing.assert_allclose(points[1:], model.embed(good), atol=1e-6)
    for wrong in (np.zeros((4, 4, 2)), np.full((4, 4, 3), 7.0), np.zeros((4, 4), int), np.zeros((0, 4))):
        with pytest.raises(UserError, match="an array must"):
            model.embed([wrong])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "no search, training or run 'nothing'"),
        ("./nothing", "does not exist"),
        ("a\0b/c", "a model must be a name"),
        ("..", "has no model.safetensors|no search, training or run"),
    ],
)
def test_names_that_are_no_model_are_one_line(name: str, says: str, shop: Shop) -> None:
    with pytest.raises(UserError, match=says) as error:
        dmltune.load(name, store=shop.store)
    assert "\n" not in str(error.value)
