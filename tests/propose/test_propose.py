"""A proposed space can be searched whatever the data: its rules hold for few and many classes and images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from dmltune.data.images import ImageSet, Ints, Pixels
from dmltune.data.splits import split
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.propose import Facts, Machine, SpaceProposal, look, propose
from dmltune.propose.facts import ENOUGH

LAPTOP = Machine("cpu", 2, packaged=True)
SERVER = Machine("cuda", 16, packaged=True)
BARE = Machine("cpu", 2, packaged=False)

machines = some.builds(
    Machine, some.sampled_from(["cpu", "cuda"]), some.integers(1, 64), packaged=some.booleans()
)


def facts(classes: int, each: int, **more: object) -> Facts:
    base = Facts("/photos", classes, classes * each, each, each, each, 0, 160, False)
    return replace(base, **more)  # type: ignore[arg-type]


def loaded(proposal: SpaceProposal, folder: Path) -> Experiment:
    """Loading checks every bound of the space, the reference point and the baseline."""
    file = folder / "photos.yaml"
    file.write_text(proposal.text)
    return load_experiment(file)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    classes=some.one_of(some.integers(4, 12), some.integers(13, 6000)),
    each=some.one_of(some.integers(2, 5), some.integers(6, 300)),
    shorter=some.integers(12, ENOUGH),
    grey=some.booleans(),
    machine=machines,
)
def test_any_data_on_any_machine_get_a_space_that_can_be_searched(
    classes: int, each: int, shorter: int, grey: bool, machine: Machine, tmp_path: Path
) -> None:
    experiment = loaded(propose(facts(classes, each, shorter=shorter, grey=grey), machine), tmp_path)
    assert experiment.searchable
    assert experiment.baseline_experiment() is not None
    assert experiment.space.reference_point["references.name"] in ("ccp", "xbm")
    labels_N = np.repeat(np.arange(classes), each)
    part = split(labels_N, experiment.objective.protocol, experiment.fold)
    per_batch = experiment.batch.size // experiment.batch.samples_per_class
    assert per_batch <= len(set(labels_N[part.train_N]))
    assert 1 < experiment.batch.samples_per_class <= max(2, each)
    assert 3 <= experiment.max_steps / experiment.validate_every <= 10
    for parameter in experiment.space.parameters:
        if parameter.name in ("references.proxies", "references.pool_size"):
            assert parameter.high <= each
    assert experiment.data.size <= max(32, shorter + 8)


def test_every_choice_is_told_in_one_short_line() -> None:
    for about in (facts(6, 20), facts(2500, 8), facts(5, 2, grey=True, shorter=28)):
        for machine in (LAPTOP, SERVER, BARE):
            choices = propose(about, machine).choices
            assert {"backbone", "data", "objective", "batch", "max_steps", "validate_every", "search"} <= {
                choice.key for choice in choices
            }
            assert {"reference", "baseline"} <= {choice.what for choice in choices}
            for choice in choices:
                line = f"{choice.what} {choice.value} {choice.why}"
                assert choice.why
                assert len(line) < 130
                assert "\n" not in line


def test_twelve_classes_of_twenty_birds_on_a_laptop(tmp_path: Path) -> None:
    """6 of the 12 train and validate; 2 of them validate."""
    experiment = loaded(propose(facts(6, 20), LAPTOP), tmp_path)
    assert experiment.backbone.name == "efficientnet_lite0"
    assert (experiment.backbone.weights, experiment.backbone.frozen_bn) == ("packaged", True)
    assert (experiment.data.size, experiment.data.augment) == (128, "crop_flip")
    assert experiment.objective.protocol == "ablation"
    assert (experiment.batch.size, experiment.batch.samples_per_class) == (32, 8)  # 4 classes, 8 images each
    assert experiment.max_steps == 100
    assert "proxy_anchor" not in experiment.search["loss.name"]["choice"]
    assert experiment.search["references.proxies"] == {"int": [1, 8], "when": {"references.name": "ccp"}}


def test_ten_classes_leave_five_and_are_split_in_halves(tmp_path: Path) -> None:
    experiment = loaded(propose(facts(5, 20), LAPTOP), tmp_path)
    part = split(np.repeat(np.arange(5), 20), experiment.objective.protocol, experiment.fold)
    assert (len(part.train_N), len(part.validation_N)) == (60, 40)  # the odd class trains


def test_five_thousand_classes_of_eight_get_a_memory_on_a_laptop_and_proxies_on_a_gpu(tmp_path: Path) -> None:
    """On a core, embedding a pool of 2,000 classes again and again costs more than the training."""
    laptop, server = (loaded(propose(facts(2500, 8), machine), tmp_path) for machine in (LAPTOP, SERVER))
    assert (laptop.objective.protocol, laptop.references.name, server.references.name) == (
        "tuning",
        "xbm",
        "ccp",
    )
    assert (laptop.batch.size, server.batch.size) == (64, 128)
    assert laptop.max_steps * laptop.batch.size <= 13_000
    assert server.max_steps > 10 * laptop.max_steps
    assert (laptop.data.size, server.data.size) == (128, 160)
    assert "proxy_anchor" in laptop.search["loss.name"]["choice"]


@pytest.mark.parametrize(
    ("more", "machine", "backbone", "size", "augment"),
    [
        ({"shorter": 28, "grey": True}, LAPTOP, "resnet20", 32, "shift"),
        ({"shorter": 32}, SERVER, "resnet20", 32, "flip"),
        ({"shorter": 256}, SERVER, "efficientnet_lite0", 224, "crop_flip"),
        ({"shorter": 256, "grey": True}, LAPTOP, "efficientnet_lite0", 128, "shift"),
        ({"shorter": 256}, BARE, "resnet20", 64, "crop_flip"),
        ({"shorter": 100}, Machine("cuda", 8, packaged=False), "torchvision/resnet18", 96, "crop_flip"),
    ],
)
def test_network_size_and_augmentation_follow_the_images_and_the_machine(
    more: dict[str, object], machine: Machine, backbone: str, size: int, augment: str, tmp_path: Path
) -> None:
    experiment = loaded(propose(facts(20, 10, **more), machine), tmp_path)
    assert (experiment.backbone.name, experiment.data.size, experiment.data.augment) == (
        backbone,
        size,
        augment,
    )
    assert experiment.backbone.frozen_bn == (experiment.backbone.weights == "packaged")


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (facts(3, 20), "needs 4 classes to train and validate on"),
        (facts(1, 20), "/photos has 1. Add classes"),
        (facts(9, 1, single=9), "9 of the 9 classes to train on in /photos have a single image"),
    ],
)
def test_too_few_classes_or_images_say_what_is_needed(about: Facts, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        propose(about, LAPTOP)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "path", ["/my photos/a: b # c", '/"quoted" \\ and é/ü', "/null", "/1e5", "/{a}, [b]"]
)
def test_a_path_of_any_letters_comes_back_as_it_was(path: str, tmp_path: Path) -> None:
    assert loaded(propose(facts(8, 8, path=path), LAPTOP), tmp_path).data.path == path


@pytest.fixture
def make_set() -> Callable[..., ImageSet]:
    def make(counts: list[int], side: int, spread: int) -> ImageSet:
        labels_N = np.repeat(np.arange(len(counts)), counts)
        rng = np.random.default_rng(0)

        def read(indices: Ints, shorter: int | None) -> list[Pixels]:
            grey = rng.integers(60, 190, (len(indices), side, 2 * side, 1))
            colour = rng.integers(-spread, spread + 1, (len(indices), side, 2 * side, 3))
            return list((grey + colour).astype(np.uint8))

        names = tuple(map(str, range(len(counts))))
        return ImageSet("memory", "train", labels_N, names, "0" * 16, read)

    return make


def test_looking_counts_classes_measures_sides_and_tells_grey_from_colour(
    make_set: Callable[..., ImageSet],
) -> None:
    found = look(make_set([1, 9, 4, 30], 48, 20), "/photos")
    assert (found.classes, found.images, found.least, found.most, found.single) == (4, 44, 1, 30, 1)
    assert (found.typical, found.shorter, found.grey) == (6, 48, False)
    assert str(found) == "4 classes, 44 images to train on, 1 to 30 a class; colour, shorter side 48 px"
    grey = look(make_set([5, 5], 300, 0), "/scans")
    assert grey.grey
    assert grey.shorter == ENOUGH
    assert str(grey).endswith("5 a class; grey, shorter side 256 px or more")


def test_asked_for_steps_are_kept_and_the_cadence_follows_them(tmp_path: Path) -> None:
    for steps in (1, 2, 7, 40, 1234):
        experiment = loaded(propose(facts(20, 20), LAPTOP, steps), tmp_path)
        assert experiment.max_steps == steps
        assert experiment.validate_every == max(1, round(steps / min(10, max(3, 0.75 * steps * 32 // 140))))


def test_weights_are_tuned_carefully_on_few_classes_and_in_many_steps(tmp_path: Path) -> None:
    few, many = (loaded(propose(facts(classes, 20), LAPTOP), tmp_path) for classes in (6, 200))
    long = loaded(propose(facts(1000, 20), SERVER), tmp_path)
    assert [run.optimizer.lr for run in (few, many, long)] == [1e-5, 1e-4, 1e-5]
