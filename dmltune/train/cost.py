"""What a training costs, from a few real steps, one validation and one pool on a throw-away copy.

Times are those of this machine with this number of threads, while nothing else runs. A part that takes too
long to be measured whole is measured on some of its images and extrapolated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from dmltune.core import checkpoint
from dmltune.core.embedder import Embedder
from dmltune.core.fit import Run, fit
from dmltune.core.threads import torch_threads
from dmltune.data.features import CHUNK, TYPES, Views, is_stored, stored_maps
from dmltune.data.feed import evaluation_batches
from dmltune.data.images import ImageSet
from dmltune.data.packed import packing
from dmltune.experiment import Experiment
from dmltune.scratch import scratch_folder
from dmltune.train.build import (
    build_objective,
    build_optimizer,
    feed_settings,
    options_of,
    schedule_of,
    training_images,
    validation_split,
)
from dmltune.train.pretraining import PREFIX, is_trained, source_of, without_training
from dmltune.train.sampled import SampledFeed, SampledMapFeed, SampledMaps, sampled, skip_with

SECONDS = 12.0  # that a measurement may take, roughly
LEAST_STEPS, MOST_STEPS = 3, 16  # the first one, which is slower, is not counted
_NEVER = 2**31


class Once(NamedTuple):
    """What is made once and stays in the cache: bytes and seconds."""

    size: float
    seconds: float


@dataclass(frozen=True)
class Cost:
    """Seconds of each part of one training, how often it comes at most, and bytes on the disk.

    `pools` are those of references that are chosen anew; `start` has the first ones. `saving` is the
    checkpoint after a validation. `extrapolated` names the parts that were not measured whole.
    """

    step: float
    validation: float
    monitoring: float
    pool: float
    start: float
    saving: float
    steps: int
    validations: int
    monitorings: int
    pools: int
    checkpoint_size: int
    model_size: int
    measured_steps: int
    train_images: int
    validation_images: int
    pool_images: int
    extrapolated: tuple[str, ...] = ()
    packed: Once | None = None
    maps: Once | None = None
    pretraining: Once | None = None

    @property
    def parts(self) -> dict[str, float]:
        """Return the seconds of a training at most, by part."""
        validated = (1 + self.validations) * self.validation + self.monitorings * self.monitoring
        return {
            "steps": self.steps * self.step,
            "validation": validated,
            "pools": self.start + self.pools * self.pool,
            "checkpoints": (1 + self.validations) * self.saving,
        }

    @property
    def seconds(self) -> float:
        """Return the seconds of a training that runs to its last step."""
        return sum(self.parts.values())

    @property
    def once(self) -> Once:
        """Return what has to be made before the first training."""
        made = [part for part in (self.packed, self.maps, self.pretraining) if part]
        return Once(sum(part.size for part in made), sum(part.seconds for part in made))

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"parts": self.parts, "seconds": self.seconds, "once": self.once}


def measure(
    experiment: Experiment, data_root: str | None, threads: int = 1, seconds: float = SECONDS
) -> Cost:
    """Return the cost of one training of this (fixed) experiment; nothing of it stays on the disk."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch_threads(threads), torch.random.fork_rng():
        run, feed, maps = _throw_away(experiment, data_root, device, seconds / 6)
        try:
            cost = _measured(run, feed, experiment, data_root, maps, seconds / 3)
        finally:
            feed.close()
    if experiment.backbone.weights.startswith(PREFIX):
        source = source_of(experiment)
        if not is_trained(source, data_root):
            first = measure(source, data_root, threads, seconds)
            cost = replace(cost, pretraining=Once(first.model_size, first.seconds))
    return cost


def _throw_away(
    experiment: Experiment, data_root: str | None, device: torch.device, limit: float
) -> tuple[Run, SampledFeed, Once | None]:
    """Return a run over sampled images whose times are those of the experiment's own."""
    chosen, whole = experiment.data, training_images(experiment, data_root)
    split = validation_split(experiment, whole)
    train = sampled(whole, chosen.size, split.train_N)  # under protocol conventional no test image is read
    settings, maps = feed_settings(experiment, 0, 1), None
    experiment = without_training(experiment)
    if not chosen.views:  # random weights are as fast; maps belong to the real ones
        experiment = experiment.with_values({"backbone.weights": "none"})
    feed = SampledFeed(train, split, **settings, cache="none")
    objective = build_objective(experiment, feed, data_root).to(device)
    embedder = objective.embedder
    if chosen.views:
        feed.close()
        views = Views(chosen.size, chosen.augment, chosen.views, chosen.maps)
        stand_in, maps = _maps(whole, train, views, embedder, limit)
        feed = SampledMapFeed(train, split, maps=stand_in, **settings)
        embedder.from_maps = True
    feed.prepare(limit)
    for name in ("forward", "map"):
        setattr(embedder, name, skip_with(feed, getattr(embedder, name)))
    optimizer = build_optimizer(experiment, objective)
    schedule = replace(schedule_of(experiment), max_steps=_NEVER, validate_every=_NEVER)
    schedule = replace(schedule, patience=None, monitor_every=None)
    return Run(objective, optimizer, feed, schedule, options_of(experiment)), feed, maps


def _maps(
    whole: ImageSet, train: ImageSet, views: Views, embedder: Embedder, limit: float
) -> tuple[Any, Once | None]:
    """Return stored maps, or a few computed ones with the cost of all."""
    device = embedder.mean.device
    digest = "" if embedder.cut is None else embedder.cut.digest()
    if is_stored(whole, views, digest):
        return stored_maps(whole, views, lambda images: embedder.at_cut(images.to(device)), digest), None
    parts: list[torch.Tensor] = []
    begin = time.perf_counter()
    for images, _ in evaluation_batches(train, range(len(train)), views.size, batch_size=CHUNK):
        maps = embedder.at_cut(images.to(device)).to("cpu", TYPES[views.dtype])
        parts.append(maps.movedim(1, -1) if maps.dim() == 4 else maps)
        if time.perf_counter() - begin > limit or len(parts) == 8:
            break
    each = (time.perf_counter() - begin) / (CHUNK * len(parts))
    rows, count = torch.cat(parts), len(whole) * (1 + views.augmented)
    size = count * rows[0].numel() * rows.element_size()
    return SampledMaps(rows.contiguous(), views.augmented), Once(size, count * each)


def _measured(
    run: Run,
    feed: SampledFeed,
    experiment: Experiment,
    data_root: str | None,
    maps: Once | None,
    limit: float,
) -> Cost:
    stamps: list[float] = []

    def enough() -> bool:
        stamps.append(time.perf_counter())
        return len(stamps) > LEAST_STEPS and (stamps[-1] - stamps[0] > limit or len(stamps) > MOST_STEPS)

    progress = fit(run, enough)
    next(progress)  # starts the references and validates
    passes, ended = list(feed.passes), time.perf_counter()
    next(progress)  # steps until there are enough
    ends = [each.begun for each in passes[1:]] + [ended]
    times = [(each, each.estimate(until)) for each, until in zip(passes, ends, strict=True)]
    validation, seconds_of_validation = next(pair for pair in times if pair[0].kind == "validation")
    pools = [pair for pair in times if pair[0].kind == "pool"]
    again = pools[-1] if pools and run.objective.references.pool_size else None
    saving, checkpoint_size, model_size = _saved(run)
    counts = counts_of(experiment)
    extrapolated = [each.kind for each in passes if each.computed < each.images]
    packed = (
        None
        if experiment.data.views and maps is None
        else packing(training_images(experiment, data_root), experiment.data.size)
    )
    return Cost(
        step=(stamps[-1] - stamps[1]) / (len(stamps) - 2),
        validation=seconds_of_validation,
        monitoring=seconds_of_validation * len(feed.monitored_N) / max(1, validation.images),
        pool=again[1] if again else 0.0,
        start=sum(seconds for _, seconds in pools),
        saving=saving,
        steps=experiment.max_steps,
        validations=counts.validations,
        monitorings=counts.monitorings,
        pools=counts.pools if again else 0,
        checkpoint_size=checkpoint_size,
        model_size=model_size,
        measured_steps=len(stamps) - 2,
        train_images=len(validation_split(experiment, training_images(experiment, data_root)).train_N),
        validation_images=validation.images,
        pool_images=again[0].images if again else 0,
        extrapolated=tuple(dict.fromkeys([*extrapolated, *(["maps"] if maps else [])])),
        packed=Once(*packed) if packed else None,
        maps=maps,
    )


class Counts(NamedTuple):
    """How often each part of a training comes at most."""

    validations: int
    monitorings: int
    pools: int


def counts_of(experiment: Experiment) -> Counts:
    """Return the counts of a training to its last step.

    A projection of CCP ends after one measurement that improves and `patience` that do not, or after
    `longest`.
    """
    steps = experiment.max_steps
    validated = {*range(experiment.validate_every, steps + 1, experiment.validate_every), steps}
    parameters, every = experiment.references.parameters, experiment.monitor.every
    patience = parameters.get("patience") if experiment.references.name == "ccp" else None
    if patience is None:
        return Counts(len(validated), 0, 0)
    monitored = set(range(every, steps + 1, every)) - validated if every else ()
    shortest = min(patience + 1, parameters.get("longest") or patience + 1)
    return Counts(len(validated), len(monitored), (len(validated) + len(monitored)) // shortest)


def _saved(run: Run) -> tuple[float, int, int]:
    """Return the seconds of a checkpoint with the best weights, and the bytes of both."""
    with scratch_folder() as scratch:
        begin, folder = time.perf_counter(), scratch
        tensors, meta = run.state()
        checkpoint.save(folder / "last", tensors, {"run": meta})
        checkpoint.save(folder / "best", run.best_weights, {})
        seconds = time.perf_counter() - begin
        sizes = [(folder / name / checkpoint.CHECKPOINT).stat().st_size for name in ("last", "best")]
    return seconds, sizes[0], sizes[1]
