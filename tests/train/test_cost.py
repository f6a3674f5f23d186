"""The cost of a training that --dry-run shows: counts, extrapolation, and that nothing stays."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dmltune.core import fit as fit_module
from dmltune.data import catalog
from dmltune.data.images import ImageSet
from dmltune.data.splits import split
from dmltune.experiment import Experiment, load_experiment
from dmltune.train import cost as module
from dmltune.train.cost import Counts, counts_of, measure
from dmltune.train.sampled import Pass, SampledFeed, sampled, skip_with

TINY = ("data.classes=40", "batch.size=16", "max_steps=8", "validate_every=3")
CCP = "references={name: ccp, patience: 1, proxies: 2, pool_size: 3}"
MONITOR = "monitor={every: 4, images: 20}"


def tiny() -> Experiment:
    return load_experiment("glyphs", [*TINY, CCP])


def slowed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a pass of a batch through the network take this much longer, in training a third of it."""
    forward = module.Embedder.forward

    def late(self: Any, images: torch.Tensor) -> torch.Tensor:
        time.sleep(seconds / 3 if self.training else seconds)
        return forward(self, images)

    monkeypatch.setattr(module.Embedder, "forward", late)


def test_parts_add_up_to_the_time_of_a_real_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed(monkeypatch, 0.1)
    monkeypatch.setattr(module, "MOST_STEPS", 5)
    monkeypatch.chdir(tmp_path)
    experiment = tiny()
    found = measure(experiment, None, seconds=30)
    assert found.extrapolated == ()
    assert found.validations == 3  # at 3, 6 and 8
    assert found.pools == 1  # a projection needs a measurement that improves and one that does not
    parts = found.parts
    assert found.seconds == sum(parts.values())
    assert parts["steps"] == pytest.approx(8 * found.step)
    assert parts["validation"] == pytest.approx(4 * found.validation)
    assert parts["pools"] == pytest.approx(found.start + found.pool)
    run = module._throw_away(experiment, None, torch.device("cpu"), 1e9)[0]
    run.schedule = module.schedule_of(experiment)
    begin = time.perf_counter()
    *_, last = fit_module.fit(run)
    took = time.perf_counter() - begin
    assert last.step == 8
    assert 0.5 * took < found.seconds < 3 * took + 0.5  # at most a pool more, on a machine with other work
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_takes_too_long_is_extrapolated_from_what_was_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slowed(monkeypatch, 0.2)
    monkeypatch.setattr("dmltune.data.feed._evaluation_batch", lambda size: 32)
    found = measure(tiny(), None, seconds=1.2)
    assert "validation" in found.extrapolated
    batches = -(-found.validation_images // 32)
    assert batches > 4
    assert found.validation > 0.6 * 0.2 * batches  # although most of them were not computed


def test_blank_images_cost_nothing_and_keep_labels_and_slots() -> None:
    images = catalog.load("glyphs", "train").first_classes(12)
    parts = split(images.labels_N, "ablation", 0, 0)
    settings: dict[str, Any] = {
        "size": 32,
        "batch_size": 8,
        "samples_per_class": 2,
        "augment": "none",
        "seed": 0,
    }
    whole, partial = (SampledFeed(images, parts, **settings, prefetch=0) for _ in range(2))
    whole.prepare(1e9)
    partial.prepare(0.0)
    for name, arguments in (("validation", ()), ("pool", (3, 0))):
        all_images, few = list(getattr(whole, name)(*arguments)), list(getattr(partial, name)(*arguments))
        for expected, got in zip(all_images, few, strict=True):
            for index in range(1, len(expected)):
                assert torch.equal(expected[index], got[index])
    assert [each.kind for each in partial.passes] == ["validation", "pool"]
    assert all(each.computed <= each.images for each in partial.passes)
    assert [each.computed for each in whole.passes] == [each.images for each in whole.passes]


def test_the_embedder_repeats_its_points_while_the_feed_skips() -> None:
    feed = SampledFeed.__new__(SampledFeed)
    calls: list[int] = []

    def compute(images: torch.Tensor) -> torch.Tensor:
        calls.append(len(images))
        return torch.arange(2.0).repeat_interleave(3).view(2, 3)

    call = skip_with(feed, compute)
    assert call(torch.zeros(2, 1)).shape == (2, 3)
    feed.skipping = True
    points = call(torch.zeros(5, 1))
    assert points.shape == (5, 3)
    assert calls == [2]
    assert torch.allclose(points[:, 0].round(), torch.tensor([0.0, 1, 0, 1, 0]))


def test_the_estimate_of_a_pass_scales_its_images_alone() -> None:
    partly = Pass("validation", images=100, begun=1.0, ended=5.0, batches=[(10, 2.0), (10, 1.0)])
    assert partly.estimate(until=7.0) == 2.0 + 9 * 1.0 + 2.0
    whole = Pass("pool", images=10, begun=1.0, ended=3.0, batches=[(10, 2.0)])
    assert whole.estimate(until=3.5) == 2.5


def test_only_a_few_training_images_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def reader(indices: np.ndarray[Any, Any], side: int | None) -> list[np.ndarray[Any, Any]]:
        read.extend(indices.tolist())
        return [np.full((40, 50, 3), index % 256, dtype=np.uint8) for index in indices]

    images = ImageSet(
        "photos", "train", np.repeat(np.arange(50), 20), tuple(map(str, range(50))), "", reader, key="k"
    )
    half_N = np.arange(0, 500)
    few = sampled(images, 32, half_N)
    assert max(read) < 500
    count = len(read)
    assert 10 < count <= 200
    assert len(few) == len(images)
    assert few.read([999], 36)[0].shape == (36, 45, 3)
    assert len(read) == count
    quick = catalog.load("glyphs", "train")
    assert sampled(quick, 32, half_N) is quick


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (("max_steps=20", "validate_every=6", "references.patience=1"), (4, 0, 2)),
        (("max_steps=18", "validate_every=6", "references.patience=2"), (3, 0, 1)),
        (("max_steps=24", "validate_every=8", "references.patience=1", MONITOR), (3, 3, 3)),  # 4, 12, 20 too
        (("max_steps=24", "validate_every=8", "references.patience=9", MONITOR), (3, 3, 0)),
        (
            ("max_steps=24", "validate_every=8", "references.patience=9", "references.longest=3", MONITOR),
            (3, 3, 2),
        ),
        (("max_steps=18", "validate_every=6", "references=batch", MONITOR), (3, 0, 0)),
    ],
)
def test_validations_and_pools_are_counted_at_most(
    overrides: tuple[str, ...], expected: tuple[int, int, int]
) -> None:
    assert counts_of(load_experiment("glyphs", ["references=ccp", *overrides])) == Counts(*expected)


def test_the_weights_of_another_space_are_measured_and_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 4)
    monkeypatch.setattr(module, "is_trained", lambda *_: False)
    small = ("data.classes=24", "batch.size=8", "data.size=32", "max_steps=4", "validate_every=2")
    experiment = load_experiment("collage-ccp-gsp", small).reference_experiment()
    source = load_experiment("glyphs", [*TINY])
    monkeypatch.setattr(module, "source_of", lambda _: source)
    first = measure(experiment, None, seconds=2).pretraining
    assert first is not None
    assert first.seconds > 0
    assert first.size > 100_000
