"""From a folder of photos to a model in use, with six commands and no Python: what an engineer types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data.tiny_layouts import picture
from support.driving import Place

import dmltune
from dmltune.ledger import Ledger
from dmltune.store import Store

TINY = (
    *("data.size=16", "max_steps=4", "validate_every=2", "scheduler=none", "noise_seeds=1", "repeat_share=0"),
    *("loss=multi_similarity", "batch={size: 8, samples_per_class: 2}", "references.patience=2"),
    *("optimizer={name: sgd, lr: 0.1}", "embedding.dim=8"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    for number in range(16):
        for index in range(4):
            picture(place.folder / "photos" / f"kind {number}" / f"{index}.png", number, index)
    yield place
    place.clean_up()


def test_photos_become_a_model_in_use_by_six_commands(place: Place) -> None:
    def run(*words: str) -> dict[str, Any]:
        code, out, errors = place.run(*words, "-f", "json")
        assert code == 0, errors
        document: dict[str, Any] = json.loads(out)
        return document

    photo = place.folder / "photos" / "kind 3" / "1.png"
    search = run("search", "--data", "photos", *TINY, "--trials", "2", "--name", "shop")
    check = run("check", "shop", "--folds", "1", "--repeats", "1", "--rerank", "aqe")
    trained = run("train", "--from", "shop", "--all-classes", "max_steps=3", "--name", "served")
    index = run("index", "served", "photos")
    query = run("query", "photos.index", str(photo), "-k", "3")
    exported = run("export", "served", "-o", "served.safetensors")

    assert search["winner"]
    singles = [row["single"] for row in check["configurations"]]
    assert all("aqe_gain" in single for single in singles)
    assert trained["finished"]
    assert trained["best_step"] == trained["max_steps"]
    assert index["images"] == 64  # of every class
    (found,) = query["queries"]
    assert Path(found["neighbours"][0]["path"]) == photo
    assert exported["difference"] <= 1e-4
    assert (place.folder / "served.safetensors").is_file()
    kinds = [entry.kind for entry in Ledger(Store(place.store)).entries("served")]
    assert kinds == ["trained"]


def test_no_class_is_left_to_measure_on(place: Place) -> None:
    """Uses the store of the test before."""
    code, out, errors = place.run("evaluate", "served", "--split", "test")
    assert (code, out) == (2, "")
    assert "trains on the classes of both halves, so there are no test classes" in errors
    code, out, errors = place.run("evaluate", "served", "-f", "json")
    assert code == 0, errors
    assert "figures are of images that were trained on" in json.loads(out)["warning"]
    code, out, errors = place.run("embed", "served", "photos", "-o", "v.npy")
    assert code == 0, errors
    assert np.load(place.folder / "v.npy").shape == (64, 8)


def test_the_recipe_is_trained_again_on_the_training_half(place: Place) -> None:
    code, out, errors = place.run("train", "--from", "shop", "seed=7", "--name", "again", "-f", "json")
    assert code == 0, errors
    assert json.loads(out)["max_steps"] == 4
    assert Ledger(Store(place.store)).entries("again") == []
    untrained = dmltune.load("shop", store=Store(place.store)).description.step == 0
    if untrained:  # in so few steps it may have learned nothing; then the steps have to be named
        code, _, errors = place.run("train", "--from", "shop", "--all-classes", "--name", "x")
        assert code == 2
        assert "say it with max_steps=N" in errors
    for words, says in (
        (("--all-classes", "glyphs"), "--all-classes needs --from NAME"),
        (("--from", "nothing"), "no search, training or run 'nothing'"),
        (("--from", "shop", "glyphs"), "leave out 'glyphs'"),
        (("--from", "shop", "--data", "photos"), "leave out --data"),
    ):
        code, out, errors = place.run("train", *words)
        assert (code, out) == (2, "")
        assert says in errors
        assert len(errors.strip().splitlines()) == 1
