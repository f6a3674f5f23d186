"""`mlflow models serve` and `predict` of a search's champion, with this Python."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.driving import Place
from support.finished_search import NAME
from support.served import served_model

from dmltune.errors import UserError
from dmltune.models import find_model
from dmltune.pyfunc import _load_pyfunc
from dmltune.store import Store
from dmltune.tracking import Tracker

RNG = np.random.default_rng(0)
PICTURES = [(RNG.random((height, width, 3)) * 255).astype(np.uint8) for height, width in ((70, 90), (41, 16))]


def png(pixels: Any) -> str:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def by_hand(store: Path, pixels: Any) -> Any:
    """The embedding of one picture, with Pillow alone: shorter side, centre, network."""
    model = find_model(NAME, Tracker(Store.at(store)))
    size, image = model.experiment.data.size, Image.fromarray(pixels)
    if min(image.size) > size:  # glyphs have no crop margin
        scale = size / min(image.size)
        shape = [max(size, round(side * scale)) for side in image.size]
        image = image.resize((shape[0], shape[1]), Image.Resampling.BICUBIC)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side)).resize((size, size))
    with torch.inference_mode():
        batch = torch.from_numpy(np.asarray(square).copy()).permute(2, 0, 1)[None]
        return model.embedder.eval()(batch)[0].numpy()


def ask(address: str, document: Any) -> Any:
    request = urllib.request.Request(
        f"{address}/invocations", json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    return json.loads(urllib.request.urlopen(request, timeout=60).read())["predictions"]


def test_a_served_champion_embeds_files_and_arrays_of_any_size(store: Path, tmp_path: Path) -> None:
    Tracker(Store.at(store)).names()  # a copied store has its own addresses once it was opened
    expected = [by_hand(store, pixels) for pixels in PICTURES]
    with served_model(store, f"models:/{NAME}@champion", tmp_path) as address:
        files = ask(
            address, {"dataframe_split": {"columns": ["image"], "data": [[png(each)] for each in PICTURES]}}
        )
        arrays = ask(address, {"dataframe_records": [{"image": each.tolist()} for each in PICTURES]})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(address, {"dataframe_records": [{"image": "no file"}]})
    np.testing.assert_allclose(files, expected, atol=1e-5)
    np.testing.assert_allclose(arrays, files, atol=1e-6)


def test_a_served_champion_equals_dmltune_embed_on_files(store: Path, tmp_path: Path) -> None:
    """Both read the files: rotation, scaling and cropping are in it."""
    place = Place(tmp_path)
    for number, pixels in enumerate(PICTURES):
        picture = Image.fromarray(pixels)
        rotated = picture.getexif()
        rotated[0x0112] = 6  # shown on its side
        picture.save(tmp_path / f"{number}.jpg", exif=rotated, quality=90)
    names = [f"{number}.jpg" for number in range(len(PICTURES))]
    code, _, errors = place.run("embed", NAME, *names, "-o", "vectors.npy", "--store", str(store))
    assert code == 0, errors
    sent = [[base64.b64encode((tmp_path / name).read_bytes()).decode()] for name in names]
    with served_model(store, f"models:/{NAME}@champion", tmp_path) as address:
        points = ask(address, {"dataframe_split": {"columns": ["image"], "data": sent}})
    np.testing.assert_allclose(points, np.load(tmp_path / "vectors.npy"), atol=1e-5)


def test_its_own_input_example_is_served(store: Path) -> None:
    tracker = Tracker(Store.at(store))
    run = tracker.find(NAME)
    assert run is not None
    with tracker.model_folder(run.data.tags["dmltune.winner_model"]) as folder:
        assert folder is not None
        model = _load_pyfunc(str(folder))
        example = json.loads((folder / "input_example.json").read_text())
    points = model.predict([row[0] for row in example["data"]])
    assert points.shape == (1, model.about.embedding_size)
    np.testing.assert_allclose((points**2).sum(1), 1, atol=0.5)  # on or in the unit ball
    assert model.predict([]).shape == (0, model.about.embedding_size)
    for wrong in (
        "%%%",
        base64.b64encode(b"text").decode(),
        [[1, 2], [3]],
        [[[300, 0, 0]]],
        [[[-1.0, 0, 0]]],
    ):
        with pytest.raises(UserError, match="image 1"):
            model.predict([wrong])
