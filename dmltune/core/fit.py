"""The training loop: `fit` is a generator that yields one `Progress` per validation.

C classes, b pool samples a class, D dimensions, N validation images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from dmltune.core import collectives, precision
from dmltune.core.batch_source import BatchSource
from dmltune.core.example_neighbours import example_neighbours
from dmltune.core.geometry import covering_radius
from dmltune.core.objective import distribute
from dmltune.core.retrieval import retrieval_metrics
from dmltune.core.run import MEASURES, Diverged, Options, Progress, Run, Schedule
from dmltune.core.step import check_finite, training_step

__all__ = ["MEASURES", "BatchSource", "Diverged", "Options", "Progress", "Run", "Schedule", "fit"]

_POLL_SECONDS = 0.005
"""Several ranks exchange the request to stop at most about this often; short steps stay short."""


def fit(
    run: Run, should_stop: Callable[[], bool] | None = None, untrained: Mapping[str, float] | None = None
) -> Iterator[Progress]:
    """Validate at step 0 (a new run only), then train, and yield after every validation until finished.

    Before the last `Progress` is yielded, the best weights are loaded into the embedder; `run.state()` still
    returns the live ones. A restored run that had finished yields the last one a second time. `should_stop`
    is called between steps; rank 0's result holds for all ranks. `untrained` are the MEASURES of the same
    network at step 0, when they are known already.
    """
    model = distribute(run.objective)
    stop = _Stop(should_stop)
    if not run.started:
        run.precision = run.options.precision
        if run.precision == "auto":
            images, _ = run.feed.batch(run.step)
            run.precision = precision.settled(run.objective.embedder, images.to(run.device))
        _start_pooling(run)
        run.objective.references.start(lambda per_class: _pool(run, per_class))
        run.started = True
        yield _validate(run, untrained)
    elif run.reason():
        yield _finish(run, run.reason())
    run.objective.embedder.lowered = precision.LOWERED.get(run.precision)
    if run.options.compile:
        run.objective.compile_parts()
    while not run.reason():
        if stop.requested():
            yield _finish(run, "stopped")
            return
        begin = time.perf_counter()
        model.train()
        images, labels = (part.to(run.device, non_blocking=True) for part in run.feed.batch(run.step))
        validate = (run.step + 1) % run.schedule.validate_every == 0 or run.step + 1 >= run.schedule.max_steps
        training_step(run, model, images, labels, look=validate)
        stop.step_seconds = time.perf_counter() - begin
        run.seconds += stop.step_seconds
        run.interval_seconds += stop.step_seconds
        if validate:
            yield _validate(run)
        elif run.monitors and run.step % (run.schedule.monitor_every or 1) == 0:
            _monitor(run)


def _validate(run: Run, known: Mapping[str, float] | None = None) -> Progress:
    """Measure and store the averaged weights, if there are any, and report them to the references.

    θ* of CCP is the weights with the best score: that of the monitored images, if there are any. Pools are
    embedded by the live weights, with which the proxies are compared.
    """
    with run.ema.in_place():
        points = _embed_validation(run) if known is None else None
        measures = dict(known or {}) if points is None else _measure(run, *points)
        run.examples = None if points is None else example_neighbours(*points, run.feed.queries_N)
        metrics = {**run.interval_figures(), **measures, "seconds": run.seconds}
        run.count_validation(metrics)
        weights_W = run.objective.weights_W().detach()
    if run.step == 0:
        run.metrics |= run.objective.references.figures()
    else:
        score = metrics[run.schedule.metric]
        if run.monitors and points is not None:
            places_N = run.feed.monitored_N
            emb_ND, labels_N = points
            monitored = _measure(run, emb_ND[places_N], labels_N[places_N], places_N)
            score = monitored[run.schedule.metric]
        run.metrics |= _tell_references(run, score, weights_W)
    return _finish(run, run.reason()) if run.reason() else run.progress()


def _monitor(run: Run) -> None:
    """Measure the monitored images alone and report their score to the references."""
    with run.ema.in_place():
        places_N = run.feed.monitored_N
        measures = _measure(run, *_embed_validation(run, places_N), places_N)
        weights_W = run.objective.weights_W().detach()
    _tell_references(run, measures[run.schedule.metric], weights_W)


def _tell_references(run: Run, score: float, weights_W: Tensor) -> dict[str, float]:
    pool = partial(_pool, run)
    return run.objective.references.after_validation(run.sign * score, weights_W, pool)


def _finish(run: Run, reason: str) -> Progress:
    run.load_best()
    return run.progress(reason)


def _measure(run: Run, emb_ND: Tensor, labels_N: Tensor, places_N: Tensor | None = None) -> dict[str, float]:
    """Measure points (of the images at these places) on rank 0, so that all ranks hold the same numbers."""
    check_finite(run, float(emb_ND.sum()), "embedding")
    values = dict.fromkeys(MEASURES, 0.0)
    if collectives.rank() == 0:
        metrics = retrieval_metrics(*_sides(run, emb_ND, labels_N, places_N))
        metrics["covering_radius"] = covering_radius(emb_ND, labels_N)
        values = {name: metrics[name] for name in MEASURES}
    return {name: collectives.broadcast_number(value) for name, value in values.items()}


def _sides(
    run: Run, emb_ND: Tensor, labels_N: Tensor, places_N: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return points and labels of the queries, then those of the gallery, or None where all are both."""
    if (queries_N := run.feed.queries_N) is None:
        return emb_ND, labels_N, None, None
    queries_N = (queries_N if places_N is None else queries_N[places_N]).to(emb_ND.device)
    return emb_ND[queries_N], labels_N[queries_N], emb_ND[~queries_N], labels_N[~queries_N]


@torch.no_grad()
def _embed_validation(run: Run, places_N: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Embed the validation set, or the images at these places, in its own order, on every rank."""
    embedder = run.objective.embedder.eval()
    emb, labels = [_no_points(run)], [torch.zeros(0, dtype=torch.long, device=run.device)]
    for images, labels_B in run.feed.validation(places_N):
        emb.append(embedder(images.to(run.device, non_blocking=True)))
        labels.append(labels_B.to(run.device, non_blocking=True))
    emb_ND, labels_N = torch.cat(emb), torch.cat(labels)
    place_N = torch.arange(len(labels_N), device=run.device) * collectives.world_size() + collectives.rank()
    order_N = collectives.gather(place_N).argsort()
    return collectives.gather(emb_ND)[order_N], collectives.gather(labels_N)[order_N]


def _start_pooling(run: Run) -> None:
    """Choose the prototypes of a pooling among averages of feature maps of training images."""
    embedder, pooling = run.objective.embedder, run.objective.embedder.pooling
    if pooling.start_points:
        per_class = math.ceil(pooling.start_points / run.feed.num_classes)
        size = embedder.projection.out_channels
        emb_CbD, valid_Cb = _pool(run, per_class, lambda images: embedder.map(images).mean((2, 3)), size)
        pooling.start(emb_CbD[valid_Cb])


@torch.no_grad()
def _pool(
    run: Run, per_class: int, embed: Callable[[Tensor], Tensor] | None = None, size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Embed fresh samples of every class in inference mode: (emb_CbD, valid_Cb), equal on all ranks."""
    embedder = run.objective.embedder.eval()
    embed = embed or embedder
    no_index = torch.zeros(0, dtype=torch.long, device=run.device)
    emb, labels, slots = [_no_points(run, size)], [no_index], [no_index]
    for images, labels_B, slot_B in run.feed.pool(per_class, run.pools_drawn):
        emb.append(embed(images.to(run.device, non_blocking=True)))
        labels.append(labels_B.to(run.device, non_blocking=True))
        slots.append(slot_B.to(run.device, non_blocking=True))
    run.pools_drawn += 1
    points_ND, label_N, slot_N = (collectives.gather(torch.cat(parts)) for parts in (emb, labels, slots))
    check_finite(run, float(points_ND.sum()), "embedding")
    emb_CbD = points_ND.new_zeros((run.feed.num_classes, per_class, points_ND.shape[1]))
    valid_Cb = torch.zeros(emb_CbD.shape[:2], dtype=torch.bool, device=run.device)
    emb_CbD[label_N, slot_N] = points_ND
    valid_Cb[label_N, slot_N] = True
    return emb_CbD, valid_Cb


def _no_points(run: Run, size: int | None = None) -> Tensor:
    """Return no points: a rank without images takes part in the gathering too."""
    weight = run.objective.embedder.projection.weight
    return weight.new_zeros((0, size or run.objective.embedder.dim))


class _Stop:
    """The request to stop; with several ranks, rank 0's state is broadcast every few steps."""

    def __init__(self, should_stop: Callable[[], bool] | None) -> None:
        self.should_stop = should_stop or (lambda: False)
        self.step_seconds = 0.0
        self.steps_left = 0

    def requested(self) -> bool:
        if collectives.world_size() == 1:
            return self.should_stop()
        self.steps_left -= 1
        if self.steps_left > 0:
            return False
        # Rank 0 also sends the steps until the next exchange: the clocks of the ranks differ.
        wait = min(100, math.ceil(_POLL_SECONDS / max(1e-6, self.step_seconds))) if self.step_seconds else 1
        stops = collectives.rank() == 0 and self.should_stop()
        answer = collectives.broadcast_number(-1.0 if stops else wait)
        self.steps_left = int(answer)
        return answer < 0
