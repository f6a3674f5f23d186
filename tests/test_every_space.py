"""Every search space trains, through the command line, on a tiny copy of its data set."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from data import tiny_layouts

from dmltune.cli import main
from dmltune.experiment import load_experiment

SPACES = sorted(file.stem for file in (Path(__file__).parents[1] / "search_spaces").glob("*.yaml"))
LAYOUTS = ("cub", "cars196", "sop", "inshop", "vehicleid", "faces")
ON_FILES = (*LAYOUTS, "cifar_collage", "cifar_singles")
TINY = [
    *("max_steps=2", "validate_every=2", "data.size=32", "embedding.dim=16", "batch.size=12"),
    *("batch.samples_per_class=3", "backbone.weights=none", "optimizer.warmup_new_layers=0"),
]


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    tiny_layouts.cifar100(folder / "cifar-100-binary", each=3)
    for name in LAYOUTS:
        tiny_layouts.write(name, folder, classes=10, per_class=2 if name == "cub" else 6)
    for number, person in enumerate(sorted((folder / "faces" / "train").iterdir())):
        for file in sorted(person.iterdir())[: 3 * (number % 2)]:  # every second class is a tail class
            file.unlink()
    return folder


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: making the tracking database takes longer than a tiny training."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("space", SPACES)
def test_it_trains_from_its_yaml_to_a_model(
    space: str,
    root: Path,
    store: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = load_experiment(space).data.name
    small = [*TINY, "data.classes=60"] if data.startswith("glyph") else TINY
    if space == "faces-sft":
        small = [*small, "transform.tail_below=5"]
    where = ["--data-root", str(root)] if data in ON_FILES else []
    code = main(
        [
            "train",
            space,
            "--trials",
            "1",
            "--name",
            space,
            "--store",
            str(store),
            "-f",
            "json",
            *where,
            *small,
        ]
    )
    said = capsys.readouterr()
    assert code == 0, said.err
    document = json.loads(said.out)
    assert (document["finished"], document["step"], document["failure"]) == (True, 2, "")
    assert math.isfinite(document["metrics"]["loss"])
    assert (store / "searches" / space / "trials" / "0000" / "best" / "model.safetensors").is_file()
    shutil.rmtree(store / "searches" / space)  # the models of all spaces are 7 GB
    shutil.rmtree(store / "artifacts")
