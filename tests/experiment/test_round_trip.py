"""Experiment → dict → Experiment, through JSON and YAML too; what is set is what is read; differences."""

from __future__ import annotations

import io
import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment

SHIPPED = ("cub", "cub-ccp", "cub-lite", "cub-lite-ccp", "glyphs", "glyphs-ccp")
# every kind of value a run can have, in its own range
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "about": st.text(alphabet="abc ×ß'\"{}:#-", max_size=20).map(lambda text: " ".join(text.split())),
    "data.size": st.integers(8, 1024),
    "data.augment": st.sampled_from(["none", "shift", "crop_flip"]),
    "embedding.dim": st.integers(2, 8192),
    "backbone.weights": st.sampled_from(["none", "imagenet", "a/b c.pt", "'x'", "1", "null", "true"]),
    "backbone.frozen_bn": st.booleans(),
    "loss.neg_margin": st.floats(0.01, 1.9),
    "references.lambda": st.floats(0, 10) | st.integers(0, 3),
    "references.proxies": st.integers(1, 12),
    "references.patience": st.integers(1, 2**62),
    "batch.size": st.integers(2, 100).map(lambda number: 4 * number),
    "optimizer.lr": st.floats(1e-300, 100),
    "optimizer.betas": st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)).map(list),
    "optimizer.weight_decay": st.floats(0, 10) | st.just(0),
    "max_steps": st.integers(100, 2**40),
    "patience": st.none() | st.integers(1, 99),
    "fold": st.integers(0, 2),
    "seed": st.integers(0, 2**31 - 1),
    "trials": st.integers(1, 10**6),
}
points = st.fixed_dictionaries({}, optional=VALUES)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load_experiment("glyphs-ccp", ["references.pool_size=12"])


@given(points)
@settings(deadline=None)
def test_what_is_set_is_what_is_read_and_the_dictionary_gives_the_experiment_back(
    experiment: Experiment, values: dict[str, Any]
) -> None:
    changed = experiment.with_values(values)
    for name, value in values.items():
        assert changed.get(name) == value
    tree = changed.to_dict()
    assert Experiment.from_dict(tree) == changed
    assert Experiment.from_dict(json.loads(json.dumps(tree, allow_nan=False))) == changed
    assert Experiment.from_dict(tree).to_dict() == tree


@given(points)
@settings(deadline=None, max_examples=50)
def test_differences_name_every_changed_key_and_no_other(
    experiment: Experiment, values: dict[str, Any]
) -> None:
    changed = experiment.with_values(values)
    named = {line.split(": ")[0] for line in experiment.differences(changed)}
    assert named == {name for name, value in values.items() if experiment.get(name) != value}
    assert len(changed.differences(experiment)) == len(named)
    assert changed.differences(changed) == []


@given(points)
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flat_yaml_file_of_an_experiment_loads_as_the_same_experiment(
    experiment: Experiment, tmp_path: Path, values: dict[str, Any]
) -> None:
    changed = experiment.fixed().with_values(values)
    stream = io.BytesIO()
    YAML(typ="safe", pure=True).dump(changed.to_dict(), stream)
    file = tmp_path / "flat.yaml"
    file.write_bytes(stream.getvalue())
    assert load_experiment(file) == changed


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_space_survives_json_yaml_and_pickle(name: str, tmp_path: Path) -> None:
    loaded = load_experiment(name)
    tree = loaded.to_dict()
    assert Experiment.from_dict(json.loads(json.dumps(tree, sort_keys=True))) == loaded
    file = tmp_path / "flat.yaml"
    with file.open("w", encoding="utf-8") as stream:
        YAML(typ="safe", pure=True).dump(tree, stream)
    again = load_experiment(file)
    assert again == loaded
    assert again.differences(loaded) == []
    assert set(again.space.names) == set(loaded.space.names)
    again = pickle.loads(pickle.dumps(loaded))
    assert again == loaded
    assert again.space.violated(again.space.reference_point) is None


def test_an_experiment_cannot_be_changed(experiment: Experiment) -> None:
    with pytest.raises(ValueError, match="frozen"):
        experiment.max_steps = 3
    tree = experiment.to_dict()
    tree["search"].clear()
    assert experiment.searchable
    before = experiment.to_dict()
    experiment.with_values({"loss.neg_margin": 0.123})
    assert experiment.to_dict() == before


def test_a_difference_reads_from_the_old_value_to_the_new(experiment: Experiment) -> None:
    before = experiment.max_steps
    changed = experiment.with_values({"max_steps": before + 7})
    assert experiment.differences(changed) == [f"max_steps: {before} → {before + 7}"]
    batch = experiment.fixed().with_values({"references": "batch"})
    assert "references.name: 'ccp' → 'batch'" in experiment.fixed().differences(batch)
    assert "references.proxies: 4 → not set" in experiment.fixed().differences(batch)
    assert experiment.differences(changed.with_values({"trials": 99}), ignore=("trials", "max_steps")) == []


def test_a_difference_in_a_searched_key_shows_its_specification(experiment: Experiment) -> None:
    before = experiment.space["references.proxies"].high
    wider = load_experiment("glyphs-ccp", ["references.pool_size=12", "search.references.proxies.int=[1, 5]"])
    assert experiment.differences(wider) == [
        f"search.references.proxies: {{int: [1, {before}]}} → {{int: [1, 5]}}"
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"references.lamda": 1}, "unknown key 'lamda' in references; did you mean 'lambda'?"),
        ({"max_steps": 1.5}, "max_steps must be a whole number; got 1.5."),
        ({"max_steps": True}, "max_steps must be a whole number; got true."),
        ({"optimizer.lr": float("nan")}, "optimizer.lr must be a finite number; got nan."),
        ({"references.lambda": float("inf")}, "references.lambda must be a finite number; got inf."),
        ({"loss": "contrastve"}, "no 'contrastve' in losses; did you mean 'contrastive'?"),
        (
            {"batch.size": 30},
            "batch.size must be a multiple of batch.samples_per_class; got 30 and 4. Use 28 or 32.",
        ),
        ({"nonsense": 1}, "unknown key 'nonsense'"),
    ],
)
def test_a_wrong_value_from_a_program_is_told_too(
    experiment: Experiment, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        experiment.with_values(values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "tree", [{}, {"data": {"name": "cub"}}, {"data": "cub", "loss": "x"}, {"search": 3}, [], None]
)
def test_a_wrong_dictionary_is_told_in_one_line(tree: Any) -> None:
    with pytest.raises(UserError) as caught:
        Experiment.from_dict(tree)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_is_not_read(experiment: Experiment) -> None:
    with pytest.raises(UserError) as caught:
        experiment.get("references.lamda")
    assert (
        str(caught.value)
        == "no value 'references.lamda' in the experiment; did you mean 'references.lambda'?"
    )


def test_sections_can_be_read_as_a_whole(experiment: Experiment) -> None:
    assert experiment.get("batch") == {"size": 64, "samples_per_class": 4, "categories": None}
    assert experiment.get("search.references.lambda") == {"float": [1e-5, 0.1], "log": True}
    assert experiment.get("reference_point.references.proxies") == 4


def test_none_as_samples_per_class_means_random_batches(write: Callable[..., Path]) -> None:
    write("mine", "extends: glyphs\nbatch: {size: 31, samples_per_class: none}\n")
    assert load_experiment("mine").batch.samples_per_class == 0


@pytest.mark.parametrize("name", ["cub-ccp", "cub-losses", "glyphs-ccp"])
def test_a_validated_tree_is_read_without_components_and_gives_the_same_experiment(name: str) -> None:
    loaded = load_experiment(name)
    for experiment in (loaded, loaded.reference_experiment()):
        tree = json.loads(json.dumps(experiment.to_dict()))
        assert Experiment.from_validated(tree) == experiment
        assert Experiment.from_validated(tree).to_dict() == experiment.to_dict()
    program = (
        "import json, sys; from dmltune.experiment import Experiment\n"
        "Experiment.from_validated(json.load(sys.stdin))\n"
        "assert not {'torch', 'ray', 'optuna', 'dmltune.core.losses'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], input=json.dumps(tree).encode(), check=True)


def test_a_validated_tree_of_an_older_version_gets_the_defaults_of_newer_keys(experiment: Experiment) -> None:
    tree = experiment.to_dict()
    del tree["zero_shot"], tree["presets"], tree["precision"], tree["device"]
    del tree["optimizer"]["ema"]
    assert Experiment.from_validated(tree) == experiment


@pytest.mark.parametrize("tree", [{}, {"data": {"name": "cub"}}, {"search": 3}, [], None, 3, {"x": 1}])
def test_a_damaged_validated_tree_is_one_line(tree: Any) -> None:
    with pytest.raises(UserError) as caught:
        Experiment.from_validated(tree)
    assert "\n" not in str(caught.value)


def test_a_point_that_was_validated_when_it_was_drawn_is_the_same_trial(experiment: Experiment) -> None:
    values = experiment.space.sample(random.Random(3))
    assert values is not None
    assert experiment.point(values, validated=True) == experiment.point(values)
