from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

from dmltune.data.images import ImageSet
from dmltune.report.gallery_page import distances, embedding_map, gallery_of
from dmltune.train import page_gallery
from dmltune.train.page_gallery import gallery


def images(labels: list[int], query: list[bool] | None = None) -> ImageSet:
    pictures = [np.full((48, 30, 3), 9 * i, dtype=np.uint8) for i in range(len(labels))]
    return ImageSet(
        name="squares", part="train", labels_N=np.array(labels), class_names=tuple("abcdefgh"),
        fingerprint="f", reader=lambda indices, side: [pictures[i] for i in indices],
        query_N=None if query is None else np.array(query),
    )  # fmt: skip


def shade(address: str) -> int:
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    return round(picture.getpixel((1, 1))[0] / 9)


@pytest.mark.parametrize("split", [False, True])
def test_neighbours_are_the_nearest_ones_and_marked_by_their_class(split: bool) -> None:
    labels = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    query = [place % 3 == 0 for place in range(12)] if split else None
    emb_ND = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
    shown = gallery(emb_ND, images(labels, query), range(12), "validation", "Trial 1")
    assert shown["rows"]
    for row in shown["rows"]:
        place = shade(shown["large"][row["image"]])
        others = [n for n in range(12) if n != place and (query is None or not query[n])]
        nearest = sorted(others, key=lambda n: float((emb_ND[n] - emb_ND[place]).norm()))
        found = [shade(shown["large"][each["image"]]) for each in row["neighbours"]]
        assert found == nearest[: len(found)]
        assert len(found) == min(page_gallery.NEIGHBOURS, len(others))
        assert [each["right"] for each in row["neighbours"]] == [labels[n] == labels[place] for n in found]
    for pair in shown["confusions"]:
        for of, near in pair["pairs"]:
            places = [shade(shown["large"][each]) for each in (of, near)]
            assert ["abcd"[labels[place]] for place in places] == [pair["of"], pair["as"]]
    assert all(point["x"] == point["x"] for point in shown["points"])


def test_a_gallery_survives_json_and_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    emb_ND = torch.randn(12, 3, generator=torch.Generator().manual_seed(2))
    stored = json.loads(json.dumps(gallery(emb_ND, images([0, 1, 2] * 4), range(12), "test", "Trial 1")))
    shown = gallery_of(stored)
    assert shown is not None
    assert len(shown["rows"]) == 8
    drawn = embedding_map(stored)
    assert drawn is not None
    assert len(drawn.spec["data"]["values"]) == 12


def test_distances_before_and_after_training_share_an_axis_and_tell_their_overlap() -> None:
    edges = [0.0, 1.0, 2.0, 4.0]
    stored = {"model": "Trial 1", "distances": {
        "before": {"edges": edges, "positive": [1, 1, 0], "negative": [3, 3, 0]},
        "after": {"edges": edges, "positive": [3, 1, 0], "negative": [0, 6, 0]},
    }}  # fmt: skip
    before, after = distances(stored)
    assert before.caption == "before training: the two overlap by 100.0 %."
    assert after.caption == "Trial 1: the two overlap by 25.0 %."
    for chart in (before, after):
        assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 2.0]
    for damage in ({}, {"distances": None}, {"distances": {"before": {}}}, {"distances": {"before": 1}}):
        assert distances({"model": "Trial 1", **damage}) == []
    assert distances(None) == []


def test_a_gallery_with_anything_but_pictures_is_not_shown() -> None:
    emb_ND = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    stored = gallery(emb_ND, images([0, 1, 2] * 2), range(6), "test", "Trial 1")
    assert gallery_of(stored | {"large": ["javascript:alert(1)"] * 99}) is None
    assert gallery_of(stored | {"rows": [{"image": 1}]}) is None
    assert gallery_of(None) is None
