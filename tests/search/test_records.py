"""The records of trials in a real SQLite study and a real MLflow store, without Ray."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState
from support.trial_records import EXPERIMENT, REFERENCE, open_records, report_of, run_trial, write_model

from dmltune import tags
from dmltune.core.run import MEASURES
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposal
from dmltune.search.state import SearchEvent
from dmltune.search.stored_models import STORED_BEST
from dmltune.search.untrained import network_key
from dmltune.tracking import Tracker
from dmltune.train.orders import TrialReport

MEASURED = {**dict.fromkeys(MEASURES, 0.1), "map_at_r": 0.2}


def tracker_of(records: TrialRecords) -> Tracker:
    return records.parent.tracker


def stored_models(records: TrialRecords) -> set[int]:
    rows = records.state.rows.items()
    return {number for number, row in rows if tracker_of(records).has_model(row.run_id)}


def test_the_models_of_the_best_trials_and_the_reference_are_stored_and_the_rest_deleted(
    tmp_path: Path,
) -> None:
    records = open_records(tmp_path)
    scores = [0.10, 0.20, 0.30, 0.40, 0.25, 0.50, 0.05]
    numbers = [run_trial(records, score) for score in scores]
    ranked = sorted(numbers, key=lambda number: -scores[number])
    assert stored_models(records) == {0, *ranked[:STORED_BEST]}
    models = records.parent.tracker.client.search_logged_models([records.experiment_id])
    runs = {records.state.rows[number].run_id for number in stored_models(records)}
    assert {model.source_run_id for model in models} == runs
    assert {str(model.status) for model in models} == {"READY"}
    assert [trial.state for trial in records.trials()] == [TrialState.COMPLETE] * len(scores)

    resumed = open_records(tmp_path)  # another session has the list of stored models from the study
    assert resumed.state.rows == records.state.rows
    run_trial(resumed, 0.9)
    assert stored_models(resumed) == {0, 3, 5, 7}


def test_a_configuration_that_is_trained_again_has_a_model(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    for score in (0.10, 0.20, 0.50, 0.40, 0.30):
        run_trial(records, score)
    assert stored_models(records) == {0, 2, 3, 4}

    def repeat(configuration: int, seed: int) -> int:
        record = records.open("repeat", REFERENCE, 10, seed=seed, fold=0, repeats=configuration)
        write_model(records, record.number)
        records.progress(record.number, report_of(0.45), EXPERIMENT)
        records.close(record.number, "")
        return record.number

    first, second, other = repeat(1, 1), repeat(1, 2), repeat(4, 1)
    assert stored_models(records) == {0, 2, 3, 4, first}  # trial 4 has its own
    run_trial(records, 0.6)
    run_trial(records, 0.7)  # three are better than trial 4, which may still win by its repetition
    assert {first, 4} < stored_models(records)
    assert not {second, other, 3} & stored_models(records)
    assert open_records(tmp_path).with_models() == {0: 0, 1: first, 2: 2, 4: 4, 8: 8, 9: 9}


def test_the_models_of_a_front_are_stored_with_its_rivals(tmp_path: Path) -> None:
    """A model is stored while fewer than three others are better and cost no more."""
    experiment = load_experiment("glyphs-ccp", ["objective.against=[parameters]"])
    records = open_records(tmp_path, experiment=experiment)
    rows = [(0.5, 9.0), (0.1, 1.0), (0.4, 9.0), (0.3, 9.0), (0.2, 9.0), (0.05, 2.0), (0.45, 9.0)]
    for score, size in rows:
        record = records.open("search" if records.points() else "reference", REFERENCE, 10)
        write_model(records, record.number)
        costs = {"parameters": size, "ms_per_image": 1.0}
        report = replace(report_of(score), architecture=str(size), costs=costs)
        records.progress(record.number, report, EXPERIMENT)
        records.close(record.number, "")
    assert stored_models(records) == {0, 1, 2, 5, 6}
    first = records.state.rows[1]
    assert first.costs == {"parameters": 1.0}
    assert tracker_of(records).client.get_run(first.run_id).data.metrics["parameters"] == 1.0
    resumed = open_records(tmp_path, experiment=experiment)
    assert resumed.state.rows == records.state.rows
    assert [trial.costs for trial in resumed.engine_trials()] == [{"parameters": size} for _, size in rows]


def test_a_cheap_trial_is_no_trial_with_a_value_and_leaves_no_model(tmp_path: Path) -> None:
    experiment = load_experiment("glyphs-ccp", ["fidelity={max_steps: 80}"])
    records = open_records(tmp_path, experiment=experiment)
    run_trial(records, 0.3)
    record = records.open("cheap", REFERENCE, 10)
    write_model(records, record.number)
    records.progress(record.number, report_of(0.9), EXPERIMENT)
    assert records.close(record.number, "").state == "complete"
    assert stored_models(records) == {0}
    trials = records.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE, TrialState.PRUNED]
    assert trials[1].value is None  # Optuna's best trial is the full one
    run = tracker_of(records).client.get_run(record.run_id)
    assert run.data.metrics["cheap_best_map_at_r"] == 0.9
    assert "best_map_at_r" not in run.data.metrics
    assert (run.data.tags[tags.ROLE], run.data.tags[tags.FIDELITY]) == ("cheap", "max_steps=80")
    assert run.data.params["max_steps"] == "80"
    resumed = open_records(tmp_path, experiment=experiment)
    assert resumed.state.rows == records.state.rows
    assert [(trial.role, trial.score) for trial in resumed.engine_trials()] == [
        ("reference", 0.3),
        ("cheap", 0.9),
    ]
    best = resumed.state.best_row("reference", "search")
    assert best is not None
    assert best.number == 0


def test_a_trial_whose_model_is_gone_is_an_error_and_never_complete(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    record = records.open("reference", REFERENCE, 10)
    write_model(records, record.number).unlink()  # written to the disk of another machine
    records.progress(record.number, report_of(0.5), EXPERIMENT)
    with pytest.raises(UserError, match="Use a --store that every node can read") as error:
        records.close(record.number, "")
    assert "\n" not in str(error.value)
    run = tracker_of(records).client.get_run(record.run_id)
    assert (run.info.status, run.data.tags[tags.STATE]) == ("RUNNING", "running")
    assert [trial.state for trial in records.trials()] == [TrialState.RUNNING]  # so it is continued


def test_a_watcher_that_fails_is_not_called_again_and_the_search_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []

    def watch(event: SearchEvent) -> None:
        events.append(event.kind)
        raise RuntimeError("the terminal is gone")

    records = open_records(tmp_path, watch)
    with caplog.at_level(logging.WARNING, "dmltune"):
        number = run_trial(records, 0.5)
    assert "the search goes on without its display: RuntimeError: the terminal is gone" in caplog.text
    assert events == ["started"]
    assert records.state.rows[number].state == "complete"


def test_a_failed_trial_has_its_reason_and_its_traceback(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    record = records.open("reference", REFERENCE, 10)
    records.progress(record.number, TrialReport.failed("ValueError: no", "Traceback …"), EXPERIMENT)
    records.close(record.number, "")
    assert [trial.state for trial in records.trials()] == [TrialState.FAIL]
    client = tracker_of(records).client
    run = client.get_run(record.run_id)
    assert (run.info.status, run.data.tags[tags.REASON]) == ("FAILED", "ValueError: no")
    assert [file.path for file in client.list_artifacts(record.run_id)] == ["failure.txt"]


def test_an_interrupted_trial_is_continued_in_the_same_run(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    record = records.open("reference", REFERENCE, 10)
    report = TrialReport(0, 5, 10, MEASURED, 0.2, 0.2, 5)
    records.progress(record.number, report, EXPERIMENT)
    records.interrupt(record.number, "stopped")
    client = tracker_of(records).client
    assert client.get_run(record.run_id).info.status == "KILLED"
    resumed = open_records(tmp_path)
    assert resumed.interrupted() == [record.number]
    assert resumed.resume(record.number).run_id == record.run_id
    resumed.progress(record.number, report, EXPERIMENT)  # the report of the checkpoint is repeated
    assert len(client.get_metric_history(record.run_id, "map_at_r")) == 1


def test_what_a_sampler_stores_is_in_the_persistent_study(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    stored = Proposal(REFERENCE.values, {"nsga:generation": 3}, {"nsga:population:2": [0, 1]})
    number = records.open("search", stored, 10).number
    resumed = open_records(tmp_path)
    assert resumed.points()[number].system_attrs == {"nsga:generation": 3}
    assert resumed.study.sampler_state() == {"nsga:population:2": [0, 1]}


def test_measures_of_the_untrained_network_are_stored_by_what_they_depend_on(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    record = records.open("reference", REFERENCE, 10)
    records.progress(record.number, TrialReport(0, 0, 10, {**MEASURED, "loss": 1.0}, 0.2, 0.2, 0), EXPERIMENT)
    measures = open_records(tmp_path).untrained.get(EXPERIMENT)  # a resumed search has them
    assert measures == {name: MEASURED[name] for name in MEASURES}
    same = [
        "loss.neg_margin=0.4",
        "optimizer.lr=0.5",
        "references.lambda=1e-4",
        "max_steps=900",
        "batch.size=64",
    ]
    assert all(network_key(changed(text)) == network_key(EXPERIMENT) for text in same)
    other = [
        *("seed=1", "fold=1", "backbone=resnetv2_20", "pooling=gmp", "embedding.dim=32", "data.size=40"),
        *("data.classes=40", "precision=bfloat16", "objective.protocol=halves"),
    ]
    keys = {network_key(changed(text)) for text in other} | {network_key(EXPERIMENT)}
    assert len(keys) == 1 + len(other)
    assert all(records.untrained.get(changed(text)) is None for text in other)


def changed(override: str) -> Experiment:
    return load_experiment("glyphs-ccp", ["require=[]", "reference_point={}", override])
