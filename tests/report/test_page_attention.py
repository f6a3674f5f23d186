"""Where generalized sum pooling looks: weights over images, histograms of prototypes, and their figures."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dmltune.core.backbones.resnet20 import Resnet20
from dmltune.core.embedder import Embedder
from dmltune.core.poolings.gap import Gap
from dmltune.core.poolings.gsp import Gsp
from dmltune.data.images import ImageSet
from dmltune.report import attention_page
from dmltune.report.charts import write_charts
from dmltune.train.page_attention import attention, covered, half_of

SIZE = 16


def images(classes: int = 4, each: int = 3) -> ImageSet:
    numbers = np.random.default_rng(0)
    pixels = [numbers.integers(0, 255, (SIZE, SIZE, 3), dtype=np.uint8) for _ in range(classes * each)]
    return ImageSet(
        name="noise", part="test", labels_N=np.repeat(np.arange(classes), each),
        class_names=tuple("abcdefgh"[:classes]), fingerprint="f",
        reader=lambda indices, side: [pixels[i] for i in indices], margin=1.0,
    )  # fmt: skip


def embedder(mu: float = 0.3, prototypes: int = 6) -> Embedder:
    torch.manual_seed(0)
    made = Embedder(Resnet20(), Gsp(channels=8, prototypes=prototypes, mu=mu, epsilon=20.0), 8)
    made.pooling.start(torch.randn(24, 8))
    return made.eval()


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    shown = images()
    found = attention(embedder(), shown, np.arange(12), SIZE)
    assert found is not None
    return {"attention": found}


def test_half_of_the_weight_lies_on_half_of_the_positions_when_all_are_alike() -> None:
    assert half_of(torch.full((4, 4), 1 / 16)) == 0.5
    peak = torch.zeros(4, 4)
    peak[1, 2] = 1.0
    assert half_of(peak) == 1 / 16


def test_a_small_share_mu_looks_at_fewer_positions_than_average_pooling() -> None:
    few, all_of_it = (attention(embedder(mu), images(), np.arange(12), SIZE) for mu in (0.1, 1.0))
    assert few is not None
    assert all_of_it is not None
    assert [row["half"] for row in all_of_it["images"]] == [0.5] * 4
    assert max(row["half"] for row in few["images"]) < 0.4


def test_the_largest_weight_is_yellow_and_none_is_dark() -> None:
    weights = torch.zeros(2, 2)
    weights[0, 0] = 1.0
    picture = np.asarray(covered(Image.new("RGB", (40, 40), "black"), weights), dtype=int)
    bright, dark = picture[2, 2], picture[-3, -3]
    assert bright[0] > bright[2] + 100
    assert dark.sum() < 100


def test_the_histogram_of_a_class_is_the_mean_of_its_attributes_and_sums_to_one(
    stored: dict[str, Any],
) -> None:
    found, model = stored["attention"], embedder()
    pixels = torch.stack(
        [torch.from_numpy(p.copy()).permute(2, 0, 1) for p in images().read([3, 4, 5], SIZE)]
    )
    with torch.inference_mode():
        expected = model.pooling.with_attributes(model.map(pixels))[1].mean(0)
    row = dict(zip(found["prototypes"], found["shares"][1], strict=True))
    assert [row[number] for number in range(6)] == pytest.approx(expected.tolist(), abs=1e-4)
    assert sum(row.values()) + found["rest"] == pytest.approx(1, abs=1e-3)


def test_another_pooling_has_no_weights_to_show() -> None:
    assert attention(Embedder(Resnet20(), Gap(), 8).eval(), images(), np.arange(12), SIZE) is None
    assert attention_page.attention_of({"attention": None}) is None
    assert attention_page.attention_of(None) is attention_page.weights_chart(None) is None


def test_pictures_are_of_the_images_and_figures_of_files_have_texts(
    stored: dict[str, Any], tmp_path: Path
) -> None:
    (first, *_), found = stored["attention"]["images"], attention_page.attention_of(stored)
    assert found is stored["attention"]
    data = base64.b64decode(first["image"].partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (96, 96)
    charts = [attention_page.weights_chart(stored), attention_page.prototypes(stored)]
    assert all(chart is not None and chart.alt and chart.caption for chart in charts)
    files = write_charts([chart for chart in charts if chart is not None], tmp_path)
    assert sorted(file.name for file in files) == sorted(
        f"{name}.{ending}" for name in ("attention", "prototypes") for ending in ("pdf", "png", "svg")
    )
    drawn = np.asarray(Image.open(tmp_path / "attention.png").convert("RGB"))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 200  # the pictures are in it


@pytest.mark.parametrize(
    "damage",
    [
        {"images": [{"class": "a", "image": "https://elsewhere/x.png", "weights": "", "half": 0.5}]},
        {"shares": [[1.0]]},
        {"mu": "0.3"},
        {"images": []},
    ],
)
def test_what_does_not_fit_or_points_elsewhere_is_not_shown(
    stored: dict[str, Any], damage: dict[str, Any]
) -> None:
    assert attention_page.attention_of({"attention": {**stored["attention"], **damage}}) is None
