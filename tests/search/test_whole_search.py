"""One search from the command line, and what holds after it."""

from __future__ import annotations

import io
import ipaddress
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import optuna
import pytest
from support.driving import Place
from support.finished_search import COMMAND, COSTS, NAME, OVERRIDES, TRIALS, FinishedSearch, finished_search

from dmltune import tags
from dmltune.cli.evaluate import tables
from dmltune.cli.output import Output
from dmltune.errors import UserError
from dmltune.evaluation import compare
from dmltune.experiment import load_experiment
from dmltune.runs import TrackedRun
from dmltune.search.api import _result, search
from dmltune.search.budget import Plan
from dmltune.search.making import make_engine
from dmltune.search.records import TrialRecords
from dmltune.search.reporting import GALLERY
from dmltune.search.result_run import log_result
from dmltune.search.state import SearchState
from dmltune.store import Store
from dmltune.tracking import Tracker


@dataclass(frozen=True)
class Finished:
    place: Place
    search: FinishedSearch

    @property
    def result(self) -> dict[str, Any]:
        return self.search.result


@pytest.fixture(scope="module")
def finished(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    search = finished_search(tmp_path_factory)
    search.copy(place.store)
    return Finished(place, search)


def runs_of(place: Place, name: str) -> tuple[Any, list[Any]]:
    client = mlflow.MlflowClient(f"sqlite:///{place.store / 'mlflow.db'}")
    experiments = [e.experiment_id for e in client.search_experiments()]
    where = f"tags.`dmltune.search` = '{name}'"
    runs = client.search_runs(experiments, where, order_by=["tags.`dmltune.number` ASC"])
    parent = [run for run in runs if run.data.tags["dmltune.number"] == "parent"]
    assert len(parent) == 1
    return parent[0], [run for run in runs if run.info.run_id != parent[0].info.run_id]


def study_of(place: Place, name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{place.store / 'optuna.db'}")


def test_trial_0_is_the_reference_and_the_baseline_runs_too(finished: Finished) -> None:
    rows = finished.result["rows"]
    assert [row["role"] for row in rows] == ["reference", "baseline"] + ["search"] * (TRIALS - 2)
    assert [row["state"] for row in rows] == ["complete"] * TRIALS
    assert rows[0]["values"]["references.lambda"] == 2e-4
    assert all(row["step"] == 8 for row in rows)
    best = max(row["best"] for row in rows if row["role"] != "baseline")
    assert finished.result["winner"]["best"] == best
    assert 0 < finished.result["untrained_score"] < 1


def test_winner_baseline_and_untrained_network_are_measured_side_by_side(finished: Finished) -> None:
    document = compare(NAME, split="validation", store=Store.at(finished.place.store))
    scores = [document["map_at_r"], *(document[name]["map_at_r"] for name in ("baseline", "untrained"))]
    rows = finished.result
    expected = [rows["winner"]["best"], rows["baseline"]["best"], rows["untrained_score"]]
    assert scores == pytest.approx(expected, abs=2e-3)
    assert document["baseline"]["trial"] == str(rows["baseline"]["number"]).zfill(4)
    stream = io.StringIO()
    Output("table", stream).show(*tables(document))
    shown = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert "validation classes, % birds baseline untrained raw pixels to baseline" in shown
    first, *others = (f"{100 * score:.1f}" for score in scores)
    lead = f"{100 * (scores[0] - scores[1]):+.1f}"
    row = next(line for line in shown if line.startswith("MAP@R"))
    assert row.split()[1:4] == [first, *others]
    assert row.split()[-1] == lead


def test_nothing_listens_beyond_loopback(finished: Finished) -> None:
    assert len(finished.search.listening) >= 1
    public = {ip for ip in finished.search.listening if not is_loopback(ip)}
    assert not public


def is_loopback(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def test_no_process_and_no_temporary_file_is_left(finished: Finished) -> None:
    assert finished.search.processes > 5
    assert finished.search.alive == []
    assert finished.search.left_over == []


def test_study_and_runs_agree_and_none_is_running(finished: Finished) -> None:
    parent, children = runs_of(finished.place, NAME)
    trials = study_of(finished.place, NAME).trials
    assert len(trials) == len(children) == TRIALS
    for trial, run in zip(trials, children, strict=True):
        assert run.data.tags["dmltune.number"] == f"{trial.number:04d}"
        assert run.info.status == "FINISHED"
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        params = {"references.name": "batch"} if trial.user_attrs["role"] == "baseline" else trial.params
        assert {k: str(v) for k, v in params.items()}.items() <= run.data.params.items()
        assert math.isclose(run.data.metrics["best_map_at_r"], trial.value)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["dmltune.winner"] == finished.result["winner"]["run_id"]


def test_a_run_has_the_tags_of_what_made_it_and_its_curve(finished: Finished) -> None:
    parent, children = runs_of(finished.place, NAME)
    assert {"dmltune.seed", "dmltune.data", "version.torch", "version.dmltune"} <= set(parent.data.tags)
    assert parent.data.params["references.name"] == "ccp"
    client = mlflow.MlflowClient(f"sqlite:///{finished.place.store / 'mlflow.db'}")
    reference = children[0].info.run_id
    for metric in ("map_at_r", "precision_at_1", "projection", "covering_radius"):
        assert [m.step for m in client.get_metric_history(reference, metric)] == [0, 4, 8]
    for metric in ("loss", "images_per_s"):
        assert [m.step for m in client.get_metric_history(reference, metric)] == [4, 8]


def test_the_best_models_are_artifacts_and_nothing_else_is_left(finished: Finished) -> None:
    _, children = runs_of(finished.place, NAME)
    rows = [row for row in finished.result["rows"] if row["role"] != "baseline"]
    ranked = sorted(rows, key=lambda row: (-row["best"], row["number"]))
    stored = {row["run_id"] for row in (*ranked[:3], rows[0], finished.result["baseline"])}
    assert len(stored) < TRIALS
    client = mlflow.MlflowClient(f"sqlite:///{finished.place.store / 'mlflow.db'}")
    models = client.search_logged_models([children[0].info.experiment_id])
    assert {model.source_run_id for model in models} == stored
    files = [path for path in (finished.place.store / "artifacts").rglob("*") if path.is_file()]
    assert sum(file.name == "model.safetensors" for file in files) == len(stored)
    assert not any(file.suffix in (".pt", ".pkl", ".pth") for file in files)
    trials = finished.place.store / "searches" / NAME / "trials"
    assert [path for path in trials.rglob("*") if path.is_file()] == []


def test_the_page_shows_distances_before_and_after_training(finished: Finished) -> None:
    parent, _ = runs_of(finished.place, NAME)
    tracker = Tracker(Store(finished.place.store))
    stored: Any = tracker.read_json(parent.info.run_id, GALLERY)
    for counts in stored["distances"].values():
        assert sum(counts["positive"]) + sum(counts["negative"]) == math.comb(stored["images"], 2)
        assert len(counts["edges"]) == len(counts["positive"]) + 1
    before, after = (stored["distances"][key] for key in ("before", "after"))
    assert before["positive"] != after["positive"], "the winner is a trained network"


def test_each_trial_has_the_costs_of_its_model_and_the_front_is_the_winner(finished: Finished) -> None:
    _, children = runs_of(finished.place, NAME)
    costs = finished.result["rows"][0]["costs"]
    assert list(costs) == COSTS
    assert costs["embedding_size"] == 128
    assert 0.1 < costs["parameters"] < 1
    assert costs["ms_per_image"] > 0
    assert all(row["costs"] == costs for row in finished.result["rows"])  # measured once
    assert all(costs.items() <= run.data.metrics.items() for run in children)
    assert all(t.user_attrs["costs"] == costs for t in study_of(finished.place, NAME).trials)
    (member,) = finished.result["front"]["members"]
    assert member["trial"] == finished.result["winner"]["number"]
    assert member["costs"] == costs
    code, out, errors = finished.place.run("best", NAME, "-f", "json")
    assert code == 0, errors
    assert json.loads(out)["front"] == finished.result["front"]
    code, out, errors = finished.place.run("best", NAME)
    assert "Front of MAP@R against embedding size, million weights and ms per image" in " ".join(out.split())


def test_evaluating_the_winner_repeats_its_validation_score(finished: Finished) -> None:
    code, out, errors = finished.place.run("evaluate", NAME, "-f", "json")
    assert code == 0, errors
    document = json.loads(out)
    assert math.isclose(document["map_at_r"], finished.result["winner"]["best"], abs_tol=1e-5)
    assert document["split"] == "validation"


def test_a_resume_of_a_finished_search_changes_no_tag_and_starts_no_ray(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.at(finished.place.store)
    parent, _ = runs_of(finished.place, NAME)
    Tracker(store).tag(parent.info.run_id, {"git.commit": "older", tags.DRIVER: "elsewhere:1:2"})
    before, children = runs_of(finished.place, NAME)

    def start(*arguments: object) -> None:
        raise AssertionError("nothing is left to do")

    monkeypatch.setattr("dmltune.train.ray_session._start", start)
    experiment = load_experiment("glyphs-ccp", OVERRIDES)
    result = search(experiment, space_name="glyphs-ccp", name=NAME, trials=TRIALS, store=store)
    rows = json.loads(json.dumps(result.to_dict()))["rows"]
    assert rows == finished.result["rows"]
    after, children_after = runs_of(finished.place, NAME)
    assert after.data.tags == before.data.tags
    assert after.info.end_time == before.info.end_time
    assert [run.data.tags for run in children_after] == [run.data.tags for run in children]
    code, out, errors = finished.place.run(*COMMAND, "-f", "json")
    assert code == 0, errors
    assert json.loads(out)["winner"] == finished.result["winner"]
    assert runs_of(finished.place, NAME)[0].data.tags == before.data.tags


def test_a_winner_without_its_model_is_an_error_and_never_complete(finished: Finished) -> None:
    store = Store(Path(shutil.copytree(finished.place.store, finished.place.folder / "copy")))
    tracker = Tracker(store)
    parent = tracker.find(NAME)
    assert parent is not None
    tracker.tag(parent.data.tags[tags.WINNER], {tags.MODEL: "lost"})
    experiment = load_experiment("glyphs-ccp", OVERRIDES)
    state = SearchState(NAME, "glyphs-ccp", "map_at_r", "max", TRIALS)
    run = TrackedRun(tracker, parent.info.run_id, "map_at_r")
    records = TrialRecords(store, state, experiment, run, {}, None)
    run.reopen({})
    engine = make_engine(experiment, Plan.of(experiment, TRIALS), records)
    with pytest.raises(UserError, match=r"the winner's model .* is not in the store") as error:
        log_result(run, _result(experiment, records, engine, store, ""), records, workers=1)
    assert "\n" not in str(error.value)
    assert tracker.active_run(parent.info.run_id).data.tags[tags.STATE] == "running"


def test_another_configuration_under_the_same_name_is_refused_with_the_difference(finished: Finished) -> None:
    code, out, errors = finished.place.run("search", "glyphs-ccp", *OVERRIDES, "max_steps=12", "--name", NAME)
    assert (code, out) == (2, "")
    assert len(errors.strip().splitlines()) == 1
    assert "max_steps: 8 → 12" in errors
