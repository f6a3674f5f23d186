"""`dmltune export-config`: a file that `dmltune train` reads as the experiment of the trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stored_searches import WrittenTrial, point, reference, repeat, write_search
from support.stores import new_store

from dmltune.cli import main
from dmltune.experiment import Experiment, load_experiment
from dmltune.search.exporting import LEFT_OUT
from dmltune.store import Store

SPACE = load_experiment("collage-ccp-gsp", ["seed=3", "optimizer.lr=0.00123456789"])
BASELINE = WrittenTrial("baseline", {0: 0.1, 20: 0.3})
OWN = dict(SPACE.space.reference_point)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("runs"))
    trials = [
        WrittenTrial("reference", {20: 0.4}, OWN),
        BASELINE,
        WrittenTrial("search", {20: 0.5}, OWN | {next(iter(OWN)): SPACE.space[next(iter(OWN))].low}),
        repeat(0.4, seed=7, of=2, fold=1),
    ]
    write_search(store, "collage", trials, experiment=SPACE)
    write_search(store, "glyphs", [reference(0.4), point(0.5)])
    return store


def trained(experiment: Experiment) -> dict[str, object]:
    """What a training depends on."""
    return {key: value for key, value in experiment.fixed().to_dict().items() if key not in LEFT_OUT}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, SPACE.reference_experiment()),
        (1, SPACE.baseline_experiment()),
        (2, SPACE.point(OWN | {next(iter(OWN)): SPACE.space[next(iter(OWN))].low})),
        (
            3,
            SPACE.point(OWN | {next(iter(OWN)): SPACE.space[next(iter(OWN))].low}).with_values(
                {"seed": 7, "fold": 1}
            ),
        ),
    ],
)
def test_the_file_is_read_as_what_the_trial_trained(
    number: int, expected: Experiment, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "best.yaml"
    words = ["export-config", "collage", "--trial", str(number), "--store", str(store.root)]
    assert main([*words, "-o", str(file)]) == 0
    assert capsys.readouterr().out.endswith(f"Train it: dmltune train {file}\n")
    assert trained(load_experiment(file)) == trained(expected)
    assert main(words) == 0
    assert capsys.readouterr().out == file.read_text()
    assert main([*words, "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert Experiment.from_dict(document["experiment"]).to_dict() == load_experiment(file).to_dict()


def test_without_a_number_it_is_the_winner(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-config", "collage", "--store", str(store.root)]) == 0
    assert capsys.readouterr().out.startswith(
        "# Trial 2 of the search collage, space glyphs-ccp: MAP@R 50.0 %"
    )


def test_a_file_with_other_contents_is_not_overwritten(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "best.yaml"
    words = ["export-config", "glyphs", "--store", str(store.root), "-o", str(file)]
    assert main(words) == main(words) == 0
    file.write_text("mine", encoding="utf-8")
    assert main(words) == 2
    assert capsys.readouterr().err == (f"-o: '{file}' exists already. Choose another name, or delete it.\n")
    assert file.read_text() == "mine"
    assert main([*words[:-1], str(tmp_path / "best.txt")]) == 2
    assert "-o must name a .yaml file" in capsys.readouterr().err
    assert main(["export-config", "glyphs", "--trial", "2", "--store", str(store.root)]) == 2
    assert capsys.readouterr().err == "search 'glyphs' has no trial 2; it has 0 to 1\n"
