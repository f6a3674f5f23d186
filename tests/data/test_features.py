"""Training from stored maps is training from images: same samples, same losses, resumed and shared alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dmltune.core import backbones, losses, poolings, references
from dmltune.core.embedder import Embedder
from dmltune.core.fit import Run, Schedule, fit
from dmltune.core.objective import Objective
from dmltune.core.optimizers import build, parameter_groups
from dmltune.data.features import MapFeed, Maps, Views, stored_maps
from dmltune.data.feed import ImageFeed, evaluation_batches
from dmltune.data.images import ImageSet
from dmltune.data.splits import split
from dmltune.errors import UserError

MakeSet = Callable[..., ImageSet]
SIZE, DIM = 16, 8
STEPS = 6


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DMLTUNE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def images(make_set: MakeSet) -> ImageSet:
    return replace(make_set([5, 3, 6, 4, 4, 7, 3, 5, 8], side=(16, 16)), margin=1.0)


def settings(**changes: Any) -> dict[str, Any]:
    plain = {
        "size": SIZE,
        "batch_size": 8,
        "samples_per_class": 2,
        "augment": "none",
        "seed": 3,
        "prefetch": 0,
    }
    return plain | changes


def embedder() -> Embedder:
    torch.manual_seed(0)
    net = backbones.load("resnet20")
    return Embedder(net, poolings.load("gap"), DIM, "lip", frozen_until="blocks.6", side=SIZE)


def maps_of(
    images: ImageSet, net: Embedder, augment: str = "none", count: int = 1, dtype: str = "float32"
) -> Maps:
    assert net.cut is not None
    return stored_maps(images, Views(SIZE, augment, count, dtype), net.at_cut, net.cut.digest())


def run_of(images: ImageSet, maps: str | None, steps: int = STEPS, **changes: Any) -> Run:
    """CCP, so that batches, validation and pools all take part."""
    net, part = embedder(), split(images.labels_N, "ablation")
    feed = ImageFeed(images, part, **settings(**changes))
    if maps is not None:
        feed = MapFeed(images, part, maps_of(images, net, dtype=maps), **settings(**changes))
        net.from_maps = True
    torch.manual_seed(1)
    refs = references.load("ccp", feed.num_classes, DIM, proxies=2, pool_size=3, patience=1)
    goal = Objective(net, losses.load("contrastive", neg_margin=0.5), refs)
    return Run(goal, build("adam", parameter_groups(goal, 1e-3, 0.0)), feed, Schedule(steps, 1))


def seen(run: Run) -> list[dict[str, float]]:
    return [{k: p.metrics[k] for k in ("loss", "map_at_r") if k in p.metrics} for p in fit(run)]


def test_float32_maps_train_as_images_do_and_float16_ones_to_their_rounding(images: ImageSet) -> None:
    from_images = run_of(images, None)
    exact, rounded = run_of(images, "float32"), run_of(images, "float16")
    plain, stored, coarse = (seen(run) for run in (from_images, exact, rounded))
    assert [one["loss"] for one in stored[1:]] == pytest.approx([one["loss"] for one in plain[1:]], rel=1e-5)
    assert coarse[1]["loss"] == pytest.approx(plain[1]["loss"], rel=5e-3)  # later steps amplify the rounding
    weights, others = (run.objective.state_dict() for run in (from_images, exact))
    for name, value in weights.items():
        torch.testing.assert_close(others[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_a_resumed_training_on_maps_is_the_one_that_was_not_interrupted(images: ImageSet) -> None:
    whole, first, second = (run_of(images, "float16") for _ in range(3))
    list(fit(whole))
    for progress in fit(first):
        if progress.step == 4:
            second.restore(*first.state())
            break
    list(fit(second))
    theirs = whole.state()[0]
    assert all(torch.equal(value, theirs[name]) for name, value in second.state()[0].items())


def test_the_ranks_together_see_what_one_process_sees(images: ImageSet) -> None:
    part, maps = split(images.labels_N, "ablation"), maps_of(images, embedder(), "crop_flip", 3)
    alone = MapFeed(images, part, maps, **settings(augment="crop_flip"))
    ranks = [MapFeed(images, part, maps, **settings(augment="crop_flip", rank=r, world=2)) for r in range(2)]
    for step in (0, 5, 2):
        shares = [rank.batch(step) for rank in ranks]
        for whole, parts in zip(alone.batch(step), zip(*shares, strict=True), strict=True):
            assert torch.equal(torch.cat(parts), whole)
    pools = [torch.cat([maps for maps, _, _ in feed.pool(3, 1)]) for feed in (alone, *ranks)]
    assert torch.equal(pools[0], torch.stack([pools[1 + i % 2][i // 2] for i in range(len(pools[0]))]))
    for rank in range(2):
        mine = [torch.cat(column) for column in zip(*ranks[rank].validation(), strict=True)]
        all_of_them = [torch.cat(column) for column in zip(*alone.validation(), strict=True)]
        assert all(torch.equal(a, b[rank::2]) for a, b in zip(mine, all_of_them, strict=True))


def test_a_batch_depends_on_seed_and_step_and_draws_every_view(images: ImageSet) -> None:
    part, net = split(images.labels_N, "ablation"), embedder()
    maps = maps_of(images, net, "crop_flip", 3)
    assert maps.views == 3
    feed, again = (MapFeed(images, part, maps, **settings(augment="crop_flip")) for _ in range(2))
    other = MapFeed(images, part, maps, **settings(augment="crop_flip", seed=4))
    later = again.batch(7)
    assert torch.equal(feed.batch(7)[0], later[0])
    assert not torch.equal(other.batch(7)[0], later[0])
    drawn = {row.numpy().tobytes() for step in range(300) for row in feed.batch(step)[0]}
    everything = [maps.read(part.train_N, np.full(len(part.train_N), view)) for view in (1, 2, 3)]
    assert drawn == {row.numpy().tobytes() for rows in everything for row in rows}


def test_view_0_is_what_the_prefix_makes_of_evaluation(images: ImageSet) -> None:
    net = embedder()
    maps = maps_of(images, net)
    (pixels, _), *_ = evaluation_batches(images, range(5), SIZE)
    found = maps.read(np.arange(5), np.zeros(5, dtype=np.int64))
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, net.at_cut(pixels), rtol=1e-5, atol=1e-6)


def test_maps_are_computed_once_and_again_for_other_weights_or_settings(
    images: ImageSet, own_cache: Path
) -> None:
    calls: list[int] = []

    def counted(net: Embedder) -> Callable[[torch.Tensor], torch.Tensor]:
        def prefix(pixels: torch.Tensor) -> torch.Tensor:
            calls.append(len(pixels))
            return net.at_cut(pixels)

        return prefix

    def fresh(net: Embedder, views: Views) -> bool:
        calls.clear()
        assert net.cut is not None
        stored_maps(images, views, counted(net), net.cut.digest())
        return bool(calls)

    net, views = embedder(), Views(SIZE, "none", 1)
    assert fresh(net, views)
    assert sum(calls) == len(images)
    assert not fresh(net, views)
    assert not fresh(embedder(), views)
    torch.nn.init.zeros_(net.backbone.blocks[8].conv1.weight)  # type: ignore[union-attr, index, arg-type]
    assert not fresh(net, views)  # behind the cut
    assert fresh(net, replace(views, augment="flip", count=2))
    assert sum(calls) == 3 * len(images)
    net.backbone.bn.running_mean += 1  # type: ignore[union-attr, operator]
    assert fresh(net, views)
    (file, *_) = own_cache.glob("*/maps")
    file.write_bytes(file.read_bytes()[:-1])
    assert sum(
        fresh(one, v) for one in (net, embedder()) for v in (views, replace(views, augment="flip", count=2))
    )


def test_bfloat16_keeps_what_is_too_large_for_float16(images: ImageSet) -> None:
    def prefix(pixels: torch.Tensor) -> torch.Tensor:
        return pixels.float() * 1e4

    with pytest.raises(UserError, match=r"too much for data\.maps float16; use bfloat16 or float32"):
        stored_maps(images, Views(SIZE, "none", 1), prefix, "large")
    maps = stored_maps(images, Views(SIZE, "none", 1, "bfloat16"), prefix, "large")
    found = maps.read(np.arange(3), np.zeros(3, dtype=np.int64))
    (pixels, _), *_ = evaluation_batches(images, range(3), SIZE)
    torch.testing.assert_close(found.float(), pixels * 1e4, rtol=1e-2, atol=0)


def test_maps_without_room_are_refused(images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dmltune.data.features.shutil.disk_usage", lambda folder: type("Usage", (), {"free": 9})
    )
    with pytest.raises(UserError, match=r"feature maps take .* use fewer data\.views") as caught:
        maps_of(images, embedder())
    assert "\n" not in str(caught.value)


def test_batches_and_maps_do_not_depend_on_torchs_default_dtype(images: ImageSet) -> None:
    part = split(images.labels_N, "ablation")

    def prefix(pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(torch.float32) / 7

    def everything(digest: str) -> list[torch.Tensor]:
        maps = stored_maps(images, Views(SIZE, "flip", 2), prefix, digest)
        feeds = [ImageFeed(images, part, **settings()), MapFeed(images, part, maps, **settings())]
        return [
            tensor for feed in feeds for batch in (feed.batch(3), next(feed.validation())) for tensor in batch
        ]

    plain = everything("plain")
    torch.set_default_dtype(torch.float64)
    try:
        double = everything("double")
    finally:
        torch.set_default_dtype(torch.float32)
    for mine, theirs in zip(double, plain, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)
