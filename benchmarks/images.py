"""Training images a second from the packed cache, beside torchvision's ImageFolder in a DataLoader; and what
part of a training step waits for images.

    python benchmarks/images.py --data-root ../shared/data [--size 128] [--rounds 7]

Both sides deliver batches of 32 photos of the training half of CUB-200-2011, cropped as RandomResizedCrop
does (16–100 % of the area, `augment: ms`), mirrored half of the time, as float32 (B, 3, size, size) from −1
to 1. Theirs: ImageFolder, crop, flip, ToTensor and Normalize on Pillow images in a DataLoader with 2 worker
processes. Ours: the feed of a training with 2 threads, the conversion to float in the main one. Both prepare
4 batches ahead and are warm: files, pack, workers and queues are there before the clock starts. The sides
take turns with a pause between them, in which queues are filled. The clock is that on the wall: other work on
the machine disturbs.

The shorter side of a copy of the data that was scaled down before (160 px) makes decoding cheap for the peer:
originals of 375 to 500 px take it several times as long. What packing costs once is printed first.

The second part trains `--steps` steps of the space cub-lite (EfficientNet-Lite0, 128 px, batches of 32) and
compares the time spent in the feed with that of the steps. The pack lies in a folder that is removed in the
end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from targets import Targets
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

from dmltune.core.fit import fit
from dmltune.data import augment, catalog
from dmltune.data.feed import Batch, ImageFeed
from dmltune.data.packed import at_size
from dmltune.data.splits import Split
from dmltune.experiment import load_experiment
from dmltune.train.build import build_run

BATCH, WORKERS = 32, 2
TURN_SECONDS, PAUSE_SECONDS = 2.0, 0.5
MEAN = STD = 0.5


def theirs(root: Path, size: int) -> Iterator[Tensor]:
    """The same 100 classes, in random order without end."""
    pipeline = transforms.Compose(
        [
            transforms.RandomResizedCrop(size, scale=augment.MS_AREAS, ratio=augment.CROP_ASPECTS),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((MEAN,) * 3, (STD,) * 3),
        ]
    )
    folder = root / "CUB_200_2011" if (root / "CUB_200_2011").is_dir() else root
    whole = ImageFolder(str(folder / "images"), pipeline)
    train = Subset(whole, np.flatnonzero(np.array(whole.targets) < 100).tolist())
    endless = RandomSampler(train, replacement=True, num_samples=10**9)
    for images, _ in DataLoader(train, BATCH, sampler=endless, num_workers=WORKERS):
        yield images


def ours(feed: ImageFeed) -> Iterator[Tensor]:
    """Pixels to −1 … 1 in place, which is what their Normalize ends with."""
    step = 0
    while True:
        images, _ = feed.batch(step)
        numbers = images.to(torch.float32, memory_format=torch.channels_last)
        yield numbers.mul_(1 / (255 * STD)).sub_(MEAN / STD)
        step += 1


def images_a_second(batches: Iterator[Tensor]) -> float:
    time.sleep(PAUSE_SECONDS)
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < TURN_SECONDS:
        batch = next(batches)
        assert batch.dtype == torch.float32
        count += len(batch)
    return count / passed


def side_by_side(root: Path, size: int, rounds: int) -> float:
    """Prints both rates and returns the median ratio of the rounds."""
    images = catalog.load("cub", "train", root)
    start = time.perf_counter()
    at_size(images, size)
    packing_s = time.perf_counter() - start
    print(f"packing once: {packing_s:.1f} s, {len(images) / packing_s:,.0f} images/s, {size} px", flush=True)
    split = Split(np.arange(len(images)), np.arange(1))
    feed = ImageFeed(
        images,
        split,
        size=size,
        batch_size=BATCH,
        samples_per_class=0,
        augment="ms",
        seed=0,
        prefetch=2 * WORKERS,
        threads=WORKERS,
    )
    sides = {"ours": ours(feed), "theirs": theirs(root, size)}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for batches in sides.values():
        images_a_second(batches)
    for _ in range(rounds):
        for side, batches in sides.items():
            rates[side].append(images_a_second(batches))
    feed.close()
    for side, each in rates.items():
        print(
            f"{side}: median {statistics.median(each):,.0f} images/s ({min(each):,.0f} to {max(each):,.0f},"
            f" {rounds} turns of {TURN_SECONDS:g} s)"
        )
    ratios = [mine / their for mine, their in zip(rates["ours"], rates["theirs"], strict=True)]
    print(f"ratio of a round: {min(ratios):.2f} to {max(ratios):.2f}", flush=True)
    return statistics.median(ratios)


class Timed:
    """A feed that knows how long its batches made the training wait."""

    def __init__(self, feed: ImageFeed) -> None:
        self.feed, self.waits = feed, []

    def __getattr__(self, name: str) -> object:
        return getattr(self.feed, name)

    def batch(self, step: int) -> Batch:
        start = time.perf_counter()
        found = self.feed.batch(step)
        self.waits.append(time.perf_counter() - start)
        return found


def share_waiting(root: Path, steps: int) -> float:
    """Of all the steps, the first one too: it finds nothing prepared."""
    small = [f"max_steps={steps}", f"validate_every={steps}", "data.classes=30"]
    run = build_run(load_experiment("cub-lite", small), str(root), torch.device("cpu"))
    run.feed = timed = Timed(run.feed)
    for _ in fit(run):
        pass
    timed.feed.close()
    share = sum(timed.waits) / run.seconds
    print(
        f"training: {run.seconds / steps:.2f} s a step, of which the median waits"
        f" {1e3 * statistics.median(timed.waits):.2f} ms for images (longest {1e3 * max(timed.waits):.1f} ms)"
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-root", type=Path, required=True, help="where CUB_200_2011 is")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    targets = Targets()
    with tempfile.TemporaryDirectory(prefix="dmltune-images-") as folder:
        os.environ["DMLTUNE_CACHE"] = folder
        ratio = side_by_side(chosen.data_root, chosen.size, chosen.rounds)
        share = share_waiting(chosen.data_root, chosen.steps)
    targets.check("images a second, ours with 2 threads / theirs with 2 workers", ratio, "≥", 5)
    targets.check("share of a step that waits for images", 100 * share, "≤", 5, " %")
    targets.end()


if __name__ == "__main__":
    main()
