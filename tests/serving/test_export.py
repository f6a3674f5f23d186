"""Exported models agree with torch for every batch size, and say how images are prepared."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import dmltune
from dmltune.core import backbones, poolings
from dmltune.core.embedder import Embedder
from dmltune.errors import UserError
from dmltune.serving import LoadedModel
from dmltune.serving import export as exporting
from dmltune.serving.export import constant_flags, difference, examples, export, latencies

from .conftest import NAME, Shop


@pytest.fixture(scope="module")
def model(shop: Shop) -> LoadedModel:
    return dmltune.load(NAME, store=shop.store)


def test_onnx_takes_files_to_the_embeddings_of_torch(shop: Shop, model: LoadedModel, tmp_path: Path) -> None:
    import onnxruntime

    done = export(model, tmp_path / "shop.onnx", "onnx")
    assert done.difference <= 1e-4
    assert min(done.torch_ms, done.exported_ms) > 0
    files = sorted(shop.photos.rglob("*.png"))
    images = model.preprocess(files).numpy()
    session = onnxruntime.InferenceSession(done.file, providers=["CPUExecutionProvider"])
    for count in (1, 3, len(files)):
        (points,) = session.run(None, {"images": images[:count]})
        np.testing.assert_allclose(points, model.embed(files[:count]), atol=1e-4)
    told = json.loads(done.description.read_text())
    assert told["fingerprint"] == model.fingerprint
    assert told["input"]["shape"] == ["batch", 3, 32, 32]
    assert told["preprocessing"]["crop_margin"] == pytest.approx(256 / 227)


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.parametrize(("form", "name"), [("torchscript", "shop.pt"), ("safetensors", "shop.safetensors")])
def test_the_other_formats_agree_too(
    form: str, name: str, shop: Shop, model: LoadedModel, tmp_path: Path
) -> None:
    done = export(model, tmp_path / name, form)
    assert done.difference <= 1e-6
    files = sorted(shop.photos.rglob("*.png"))[:5]
    if form == "safetensors":
        again = dmltune.load(done.file)
        assert again.fingerprint == model.fingerprint
        assert np.array_equal(again.embed(files), model.embed(files))
    else:
        points = torch.jit.load(str(done.file))(model.preprocess(files))  # type: ignore[no-untyped-call]
        np.testing.assert_allclose(points.detach().numpy(), model.embed(files), atol=1e-6)


def test_a_model_that_differs_is_not_written(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = exporting._EXPORTERS["safetensors"]

    def spoilt(path: Path) -> Any:
        embed = read(path)
        return lambda images: embed(images) + 2e-4

    monkeypatch.setitem(exporting._EXPORTERS, "safetensors", (write, spoilt))
    with pytest.raises(UserError, match=r"must agree with torch to 0.0001; it differs by 0.0002"):
        export(model, tmp_path / "x.safetensors", "safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.parametrize(
    ("backbone", "pooling", "side"),
    [
        ("torchvision/resnet18", "gap", 64),
        ("efficientnet_lite0", "gsp", 64),
        ("timm/vit_tiny_patch16_224", "gsp", 224),
    ],
)
def test_torchscript_of_larger_networks_agrees(
    backbone: str, pooling: str, side: int, tmp_path: Path
) -> None:
    """Their ONNX takes half a minute: benchmarks/export.py measures it."""
    torch.manual_seed(0)
    embedder = Embedder(backbones.load(backbone), poolings.load(pooling, 32), 32, "l2").eval()
    if pooling == "gsp":
        embedder.pooling.start(torch.randn(500, 32))
    about: Any = SimpleNamespace(description=SimpleNamespace(image_size=side))
    with exporting._quiet():
        exporting._write_torchscript(about, embedder, tmp_path / "x.pt")
        traced = torch.jit.load(str(tmp_path / "x.pt"))  # type: ignore[no-untyped-call]
    assert difference(about, embedder, traced) <= 1e-4
    assert examples(about, 2).float().std() > 20


def test_a_flag_of_the_pooling_becomes_a_constant() -> None:
    pooling = poolings.load("gsp", 8)
    embedder = Embedder(backbones.load("resnet20"), pooling, 8, "l2")
    assert constant_flags(embedder).pooling.started is False


def test_calls_that_something_else_delays_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the calls wait for a busy machine, as calls of many threads do; one of each kind does not."""
    clock = {"now": 0.0, "calls": 0}
    monkeypatch.setattr("dmltune.serving.export.time.perf_counter", lambda: clock["now"])

    def embed(images: torch.Tensor) -> torch.Tensor:
        clock["calls"] += 1
        clock["now"] += 0.001 if clock["calls"] % 3 == 0 else 0.4
        return images

    assert latencies([embed, embed], torch.zeros(1)) == pytest.approx([1.0, 1.0])
