"""What the model of a trial costs to use: embedding size, millions of weights, milliseconds an image.

All three are known before the first step. The time depends on the machine: it is measured once for each
architecture, on the worker that is the first to train it, while the other workers train.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Mapping

import torch

from dmltune.core.embedder import Embedder
from dmltune.experiment import Experiment
from dmltune.train.inference import CPU_PIXELS

WARM_UP = 3  # batches before the clock runs
REPEATS, SECONDS = 7, 0.5  # at least so many batches, and for as long
MOST_IMAGES = 64  # of a batch
Costs = dict[str, float]


def architecture_of(experiment: Experiment, embedder: Embedder) -> str:
    """Return a digest of all that the costs depend on: modules, shapes, image size, settings of the pooling.

    Settings of a pooling that are real numbers change results and not times.
    """
    pooling = experiment.pooling.parameters.items()
    parts = [
        [type(module).__name__ for module in embedder.modules()],
        [list(tensor.shape) for tensor in embedder.state_dict().values()],
        experiment.data.size,
        sorted((key, str(value)) for key, value in pooling if not isinstance(value, float)),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def model_costs(
    experiment: Experiment, embedder: Embedder, device: torch.device, known: Mapping[str, Costs]
) -> tuple[str, Costs]:
    """Return the architecture and its costs, measured unless they are `known`."""
    architecture = architecture_of(experiment, embedder)
    if architecture in known:
        return architecture, dict(known[architecture])
    weights = sum(weight.numel() for weight in embedder.parameters())
    return architecture, {
        "embedding_size": float(embedder.dim),
        "parameters": round(weights / 1e6, 4),
        "ms_per_image": milliseconds(embedder, experiment.data.size, device),
    }


def milliseconds(embedder: Embedder, size: int, device: torch.device) -> float:
    """Return the median time of an image in batches as they are served, to three digits."""
    number = max(1, min(MOST_IMAGES, CPU_PIXELS // size**2))
    generator = torch.Generator().manual_seed(0)  # training draws the same numbers as without this
    images = torch.randint(0, 256, (number, 3, size, size), dtype=torch.uint8, generator=generator)
    images, training, from_maps = images.to(device), embedder.training, embedder.from_maps
    embedder.from_maps = False
    embedder.eval()
    try:
        with torch.inference_mode():
            for _ in range(WARM_UP):
                embedder(images)
            times: list[float] = []
            while len(times) < REPEATS or sum(times) < SECONDS:
                times.append(_seconds(embedder, images))
    finally:
        embedder.train(training)
        embedder.from_maps = from_maps
    return float(f"{1000 * statistics.median(times) / number:.3g}")


def _seconds(embedder: Embedder, images: torch.Tensor) -> float:
    """Return the time of a batch, without what other processes took of the core meanwhile."""
    begin, busy = time.perf_counter(), time.process_time()
    embedder(images)
    if images.is_cuda:
        torch.cuda.synchronize(images.device)
        return time.perf_counter() - begin
    return min(time.perf_counter() - begin, time.process_time() - busy)
