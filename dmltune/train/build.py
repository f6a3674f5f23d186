"""Build from an experiment what runs it: images, feed, objective, optimiser, schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from dmltune.core import backbones, collectives, losses, optimizers, poolings, references, transforms
from dmltune.core.embedder import Embedder
from dmltune.core.fit import Options, Run, Schedule
from dmltune.core.objective import Objective
from dmltune.core.zero_shot import ZeroShot
from dmltune.data import elsewhere
from dmltune.data.elsewhere import HalfRequest
from dmltune.data.features import MapFeed, Views, stored_maps
from dmltune.data.feed import ImageFeed
from dmltune.data.images import ImageSet, Missing
from dmltune.data.splits import ALL_CLASSES, BOTH_HALVES, CONVENTIONAL, Monitored, Split, monitored, split
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.resources import Locations
from dmltune.train.pretraining import with_weights, without_training
from dmltune.weights.fetching import obtain

Images = TypeVar("Images", bound=ImageSet)
SPLIT_SEED = 0  # of the protocol, not of the trial: all trials are validated on the same classes


@lru_cache(maxsize=4)  # a warm worker reads a data set once
def training_half(
    name: str,
    classes: int | None,
    data_root: str | None,
    path: str | None = None,
    missing: Missing = "error",
    test_list: str | None = None,
) -> ImageSet:
    """Return the images that `search` and `train` may see: never a test class."""
    half = HalfRequest(name, "train", path, missing, test_list)
    return elsewhere.load(half, Path(data_root) if data_root else None).first_classes(classes)


@lru_cache(maxsize=2)
def both_halves(
    name: str,
    classes: int | None,
    data_root: str | None,
    path: str | None = None,
    missing: Missing = "error",
    test_list: str | None = None,
) -> Monitored:
    """Return training and test images, for the protocols of splits.BOTH_HALVES alone."""
    half = HalfRequest(name, "test", path, missing, test_list)
    test = elsewhere.load(half, Path(data_root) if data_root else None)
    train = training_half(name, classes, data_root, path, missing, test_list)
    return monitored(train, test.first_classes(classes))


def training_images(experiment: Experiment, data_root: str | None) -> ImageSet:
    chosen = experiment.data
    protocol = experiment.objective.protocol
    load = both_halves if protocol in BOTH_HALVES else training_half
    images = load(chosen.name, chosen.classes, data_root, chosen.path, chosen.missing, chosen.test_list)
    if protocol == ALL_CLASSES:
        images = replace(images, query_N=None)  # every image trains
    return framed(images, chosen.margin)


def framed(images: Images, margin: float | None) -> Images:
    """Return the images with the margin of the experiment, where it has one."""
    return images if margin is None else replace(images, margin=margin)


def build_run(experiment: Experiment, data_root: str | None, device: torch.device) -> Run:
    """Return a fresh training of this rank. All ranks get the same but for their share of the data."""
    experiment = with_weights(experiment, data_root)
    torch.manual_seed(experiment.seed)
    pinned = device.type == "cuda" and experiment.device.pinned
    feed = build_feed(experiment, data_root, collectives.rank(), collectives.world_size(), pinned=pinned)
    objective = build_objective(experiment, feed, data_root).to(device)
    if experiment.data.views:
        feed.close()
        feed = build_map_feed(experiment, data_root, objective.embedder, pinned)
    optimizer = build_optimizer(experiment, objective)
    return Run(objective, optimizer, feed, schedule_of(experiment), options_of(experiment))


def untrained_embedder(experiment: Experiment, data_root: str | None) -> Embedder:
    """Return the network before its first step. GSP is then average pooling."""
    run = build_run(experiment.fixed(), data_root, torch.device("cpu"))
    if isinstance(run.feed, ImageFeed):
        run.feed.close()
    run.objective.embedder.from_maps = False  # images are measured
    return run.objective.embedder


def build_feed(
    experiment: Experiment,
    data_root: str | None,
    rank: int = 0,
    world: int = 1,
    cache: str | None = None,
    pinned: bool = False,
) -> ImageFeed:
    train, settings = training_images(experiment, data_root), feed_settings(experiment, rank, world)
    return ImageFeed(train, validation_split(experiment, train), **settings, cache=cache, pinned=pinned)


def build_map_feed(
    experiment: Experiment, data_root: str | None, embedder: Embedder, pinned: bool = False
) -> MapFeed:
    """Return this rank's feed of stored maps, and switch the embedder to maps."""
    train, chosen = training_images(experiment, data_root), experiment.data
    views = Views(chosen.size, chosen.augment, chosen.views or 1, chosen.maps)
    device = embedder.mean.device
    digest = "" if embedder.cut is None else embedder.cut.digest()
    maps = stored_maps(train, views, lambda images: embedder.at_cut(images.to(device)), digest)
    embedder.from_maps = True
    settings = feed_settings(experiment, collectives.rank(), collectives.world_size())
    return MapFeed(train, validation_split(experiment, train), maps, **settings, pinned=pinned)


def feed_settings(experiment: Experiment, rank: int, world: int) -> dict[str, Any]:
    return {
        "size": experiment.data.size,
        "batch_size": experiment.batch.size,
        "samples_per_class": experiment.batch.samples_per_class,
        "categories": experiment.batch.categories,
        "augment": experiment.data.augment,
        "seed": experiment.seed,
        "rank": rank,
        "world": world,
        "monitored": experiment.monitor.images if experiment.monitor.every else None,
    }


def validation_split(experiment: Experiment, train: ImageSet) -> Split:
    """Return the training and validation classes of the experiment's protocol and fold."""
    protocol = experiment.objective.protocol
    if isinstance(train, Monitored) and protocol == CONVENTIONAL:
        return train.split()
    only = getattr(train, "protocol", protocol)
    if protocol != only:
        raise UserError(
            f"data set {train.name} is made for objective.protocol {only}; got {protocol}. Use {only}."
        )
    return split(train.labels_N, protocol, experiment.fold, SPLIT_SEED)


def build_objective(experiment: Experiment, feed: ImageFeed, data_root: str | None = None) -> Objective:
    """Return the module of all that learns. The references decide between l2 and lip normalisation."""
    dim, classes, chosen = dimensions(experiment), feed.num_classes, experiment.references
    refs = references.load(chosen.name, classes, dim, **chosen.parameters)
    loss = losses.load(experiment.loss.name, classes, dim, **experiment.loss.parameters)
    torch.manual_seed(experiment.seed)  # the network is the same whatever the loss and references draw
    embedder = build_embedder(experiment, refs.normalise, data_root)
    if not learns(embedder):
        raise UserError(
            "nothing in this space learns: all of the backbone is frozen, and nothing follows it. "
            "dmltune evaluate takes the name of the space; "
            "to train, set embedding.dim or backbone.frozen_until"
        )
    if experiment.data.views and embedder.cut is None:
        raise UserError(
            "data.views keeps maps of a frozen prefix; set backbone.frozen_until, or drop data.views"
        )
    return Objective(
        embedder, loss, refs, _transform(experiment, feed), _zero_shot(experiment, embedder, classes)
    )


def dimensions(experiment: Experiment) -> int:
    """Return the embedding size: as configured, or the channels of the backbone."""
    if (dim := experiment.embedding.dim) is not None:
        return dim
    with torch.random.fork_rng(devices=[]):  # that of the training draws for the one it keeps
        return backbones.load(experiment.backbone.name).channels


def _transform(experiment: Experiment, feed: ImageFeed) -> transforms.Transform | None:
    chosen = experiment.transform
    if chosen.name == "identity":
        return None
    counts_C = torch.from_numpy(feed.class_counts)
    return transforms.load(
        chosen.name, feed.num_classes, dimensions(experiment), counts_C, **chosen.parameters
    )


def _zero_shot(experiment: Experiment, embedder: Embedder, num_classes: int) -> ZeroShot | None:
    chosen = experiment.zero_shot
    if chosen.weight == 0:
        return None
    return ZeroShot(
        num_classes, embedder.pooling.attributes, chosen.weight, chosen.ridge, chosen.scale, embedder.dim
    )


def build_optimizer(experiment: Experiment, objective: Objective) -> torch.optim.Optimizer:
    chosen = experiment.optimizer
    groups = optimizers.parameter_groups(
        objective, chosen.lr, chosen.weight_decay, chosen.new_layer_factor, chosen.proxy_factor
    )
    extras = {key: value for key in ("betas", "momentum") if (value := getattr(chosen, key)) is not None}
    return optimizers.build(chosen.name, groups, **extras)


def build_embedder(experiment: Experiment, normalise: str, data_root: str | None = None) -> Embedder:
    dim, chosen = experiment.embedding.dim, experiment.backbone
    file = obtain(chosen.name, chosen.weights, data_root)
    backbone = backbones.load(chosen.name, chosen.weights, file)
    backbones.require_size(backbone, chosen.name, experiment.data.size)
    pooling = poolings.load(
        experiment.pooling.name, dim or backbone.channels, **experiment.pooling.parameters
    )
    return Embedder(
        backbone,
        pooling,
        dim,
        normalise,  # type: ignore[arg-type]
        chosen.frozen_bn,
        chosen.frozen_until,
        experiment.data.size,
        experiment.device.channels_last,
    )


def learns(embedder: Embedder) -> bool:
    return any(weight.requires_grad for weight in embedder.parameters())


def schedule_of(experiment: Experiment) -> Schedule:
    return Schedule(
        max_steps=experiment.max_steps,
        validate_every=experiment.validate_every,
        patience=experiment.patience,
        metric=experiment.objective.metric,
        mode=experiment.objective.mode,
        milestones=experiment.optimizer.milestones,
        decay=experiment.optimizer.decay,
        plateau=experiment.optimizer.plateau,
        monitor_every=experiment.monitor.every,
        choose="last" if experiment.objective.protocol == ALL_CLASSES else "best",
    )


def options_of(experiment: Experiment) -> Options:
    chosen = experiment.optimizer
    return Options(
        chosen.clip_norm,
        chosen.warmup_new_layers,
        chosen.ema,
        experiment.precision,
        experiment.device.compile,
    )


def validate_experiment(
    experiment: Experiment, locations: Locations, workers: int = 1, planning: bool = False
) -> str:
    """Build what Ray's workers would build, so that mistakes show before Ray starts: data, split, batch,
    weights. What is missing on this machine is one error with a line each. `planning` makes nothing that a
    start makes once: packed images, weights from a training.

    Return the fingerprint of the training images.
    """
    from dmltune.train.setup import require_setup  # which uses this file

    if experiment.searchable and experiment.objective.protocol == ALL_CLASSES:
        raise UserError(
            "protocol all_classes leaves no class to compare trials on. Search with another one, then: "
            "dmltune train --from NAME --all-classes"
        )
    require_setup(experiment, locations)
    root = locations.absolute_root
    runs = [experiment.reference_experiment(), experiment.baseline_experiment()]
    if experiment.fidelity:
        runs.append(experiment.cheap_point(experiment.space.reference_point))
    for run in runs:
        if run is not None:
            feed = build_feed(run, root, world=workers, cache="none" if planning else None)
            try:
                build_objective(without_training(run) if planning else with_weights(run, root), feed, root)
            finally:
                feed.close()
    return training_images(experiment, root).fingerprint
