"""What a finished search has written into MLflow: configurations, data, models, the winner."""

from __future__ import annotations

import pickletools
from pathlib import Path

import pytest
from support.finished_search import NAME, OVERRIDES, TRIALS
from support.tracking_runs import runs_of

from dmltune import tags
from dmltune.experiment import load_experiment
from dmltune.runs import training_params
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.tracking.models import CHALLENGER, CHAMPION


@pytest.fixture(scope="module")
def tracker(store: Path) -> Tracker:
    return Tracker(Store.at(store))


@pytest.fixture(scope="module")
def parent(tracker: Tracker) -> Run:
    return runs_of(tracker, NAME)[0]


@pytest.fixture(scope="module")
def trials(tracker: Tracker) -> list[Run]:
    return runs_of(tracker, NAME)[1]


def test_every_trial_has_its_whole_configuration_and_the_searched_keys(trials: list[Run]) -> None:
    experiment = load_experiment("glyphs-ccp", [*OVERRIDES])
    baseline = experiment.baseline_experiment()
    assert baseline is not None
    for run, trained in ((trials[0], experiment.reference_experiment()), (trials[1], baseline)):
        assert run.data.params == {key: str(value) for key, value in training_params(trained).items()}
    assert "references.lambda" not in trials[1].data.params
    for run in trials:
        assert run.data.tags[tags.SEARCHED].split(", ") == list(experiment.space.names)
        assert {"backbone.name", "loss.name", "optimizer.lr", "seed", "fold"} <= set(run.data.params)
        assert not {"trials", "sampler.name", "noise_seeds"} & set(run.data.params)


def test_every_trial_names_its_data_and_who_made_it(trials: list[Run]) -> None:
    fingerprint = trials[0].data.tags[tags.DATA].partition(":")[2]
    for run in trials:
        inputs = {
            each.tags[0].value: (each.dataset.name, each.dataset.digest) for each in run.inputs.dataset_inputs
        }
        assert inputs == {
            "training": ("glyphs/fold0/train", fingerprint),
            "validation": ("glyphs/fold0/validation", fingerprint),
        }
        assert run.data.tags["mlflow.source.type"] == "LOCAL"
        assert run.data.tags["mlflow.source.name"].startswith("dmltune")
        assert run.data.tags["mlflow.user"]


def test_roles_have_their_own_colours_and_the_winner_is_marked(parent: Run, trials: list[Run]) -> None:
    winner = parent.data.tags[tags.WINNER]
    assert len(set(tags.COLOURS.values())) >= 8
    for run in trials:
        role = "winner" if run.info.run_id == winner else run.data.tags[tags.ROLE]
        assert run.data.tags[tags.COLOUR] == tags.COLOURS[role]
        assert run.info.run_name.startswith("★ ") == (run.info.run_id == winner)


def test_the_run_of_the_search_has_the_configuration_and_the_score_of_its_winner(
    parent: Run, trials: list[Run]
) -> None:
    winner = next(run for run in trials if run.info.run_id == parent.data.tags[tags.WINNER])
    assert winner.data.params.items() <= parent.data.params.items()
    assert parent.data.metrics["best_map_at_r"] == winner.data.metrics["best_map_at_r"]
    assert parent.data.metrics["trials"] == TRIALS
    assert parent.data.metrics["cost_seconds"] > 0
    chosen = {key: value for key, value in parent.data.tags.items() if key.startswith(tags.WINNER_VALUES)}
    assert chosen[f"{tags.WINNER_VALUES}references.lambda"] == winner.data.params["references.lambda"]
    note = parent.data.tags[tags.NOTE]
    number = parent.data.tags[tags.WINNER_TRIAL]
    assert f"Trial {number} is best: MAP@R" in note
    assert f"dmltune check {NAME}" in note


def test_stored_models_are_ready_have_their_figures_and_hold_no_pickle(
    tracker: Tracker, trials: list[Run], store: Path
) -> None:
    stored = {run.info.run_id: run for run in trials if run.data.tags.get(tags.MODEL) == tags.STORED}
    models = tracker.client.search_logged_models([trials[0].info.experiment_id])
    assert {model.source_run_id for model in models} == set(stored)
    for model in models:
        run = stored[str(model.source_run_id)]
        assert str(model.status) == "READY"
        assert [each.model_id for each in run.outputs.model_outputs] == [model.model_id]
        assert model.params == run.data.params
        scores = {metric.key: metric for metric in model.metrics}
        assert scores["map_at_r"].value == run.data.metrics["best_map_at_r"]
        assert scores["map_at_r"].dataset_name == "glyphs/fold0/validation"
        assert scores["best_map_at_r"].value == run.data.metrics["best_map_at_r"]
        for key in ("map_at_r", "precision_at_1"):  # no point is there twice
            steps = [point.step for point in tracker.client.get_metric_history(run.info.run_id, key)]
            assert steps == [0, 4, 8]
    files = [file for file in (store / "artifacts" / "glyphs-ccp" / "models").rglob("*") if file.is_file()]
    assert {"MLmodel", "model.safetensors", "input_example.json"} <= {file.name for file in files}
    for file in files:
        with pytest.raises(Exception):
            list(pickletools.genops(file.read_bytes()))


def test_the_winner_is_champion_and_another_configuration_challenger(tracker: Tracker, parent: Run) -> None:
    versions = {
        alias: tracker.client.get_model_version_by_alias(NAME, alias) for alias in (CHAMPION, CHALLENGER)
    }
    assert versions[CHAMPION].run_id == parent.data.tags[tags.WINNER_MODEL]
    assert versions[CHALLENGER].run_id != versions[CHAMPION].run_id
    assert all(Path(version.source.removeprefix("file://")).is_dir() for version in versions.values())


def test_the_registered_model_says_its_score_and_how_it_is_used(tracker: Tracker, parent: Run) -> None:
    def description() -> str:
        return str(tracker.client.get_registered_model(NAME).description)

    first = description()
    assert first.startswith(f"The embedder that search {NAME} found. ")
    assert "MAP@R" in first
    assert f"`dmltune embed {NAME} photos/ -o vectors.parquet`" in first
    champion = parent.data.tags[tags.WINNER_MODEL]
    tracker.register(NAME, champion, None, f"The embedder that search {NAME} found. Another winner.")
    assert description().endswith("Another winner.")
    tracker.client.update_registered_model(NAME, "Ours, for the shop.")
    tracker.register(NAME, champion, None, first)
    assert description() == "Ours, for the shop."


def test_pictures_of_every_validation_are_in_the_reference_run(tracker: Tracker, trials: list[Run]) -> None:
    files = [Path(file.path).name for file in tracker.client.list_artifacts(trials[0].info.run_id, "images")]
    assert {name.split("+")[2] for name in files} == {"0", "4", "8"}
    assert trials[0].data.tags[tags.IMAGES] == "True"


def test_another_winner_takes_the_place_of_the_first_in_the_parameters(tracker: Tracker) -> None:
    key = {tags.NAME: "again", tags.NUMBER: tags.PARENT}
    run_id = tracker.begin_run(tracker.experiment("again"), "again", key, {"search.trials": 3}, {})[0]
    many = {f"key.{number}": number for number in range(250)}
    assert tracker.replace_params(run_id, {"loss.name": "triplet", "loss.margin": 0.2, **many})
    assert tracker.replace_params(run_id, {"loss.name": "fastap", **many})
    expected = {"search.trials": "3", "loss.name": "fastap", **{key: str(n) for key, n in many.items()}}
    assert tracker.client.get_run(run_id).data.params == expected
