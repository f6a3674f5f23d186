"""The logbook on a real SQLite study and a real MLflow store, without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.trial import TrialState

from dmltune.experiment import load_experiment
from dmltune.search.records import KEEP_BEST, TrialRecords
from dmltune.search.state import Event, SearchState, Watch
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.orders import TrialReport, failed

EXPERIMENT = load_experiment("glyphs-ccp")


def logbook(folder: Path, watch: Watch | None = None) -> tuple[TrialRecords, Tracker]:
    store = Store.at(folder)
    tracker = Tracker(store)
    space = tracker.experiment("some-space")
    parent = tracker.open_run(space, "s", {"dmltune.search": "s", "dmltune.number": "parent"}, {}, {})
    board = SearchState("s", "some-space", "map_at_r", "max", trials_planned=9)
    return TrialRecords(store, tracker, board, EXPERIMENT, parent, {"some": "tag"}, watch), tracker


def train(book: TrialRecords, score: float) -> int:
    """A trial that leaves a model and ends with this score."""
    role = "search" if book.points() else "reference"
    row = book.open(role, EXPERIMENT.space.reference_point, 10)  # type: ignore[arg-type]
    model = book.trial_folder(row.number) / "best"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_bytes(b"weights")
    report = TrialReport(1, 10, 10, {"map_at_r": score}, score, score, 10, finished=True, reason="max_steps")
    book.progress(row.number, report)
    book.close(row.number, "")
    return row.number


def test_the_best_models_and_the_references_are_kept_and_the_rest_deleted(tmp_path: Path) -> None:
    book, tracker = logbook(tmp_path)
    scores = [0.10, 0.20, 0.30, 0.40, 0.25, 0.50, 0.05]
    numbers = [train(book, score) for score in scores]
    kept = {n for n in numbers if tracker.model_folder(book.board.rows[n].run_id) is not None}
    ranked = sorted(numbers, key=lambda n: -scores[n])
    assert kept == {0, *ranked[:KEEP_BEST]}
    for number in numbers:
        run_id = book.board.rows[number].run_id
        assert bool(tracker.client.list_artifacts(run_id, "model")) == (number in kept)
    assert [t.state for t in book.trials()] == [TrialState.COMPLETE] * len(scores)


def test_another_session_knows_what_was_kept(tmp_path: Path) -> None:
    first, _ = logbook(tmp_path)
    for score in (0.1, 0.2, 0.3, 0.4):
        train(first, score)
    again, tracker = logbook(tmp_path)
    assert again.board.rows == first.board.rows
    train(again, 0.9)
    kept = {n for n, row in again.board.rows.items() if tracker.model_folder(row.run_id) is not None}
    assert kept == {0, 2, 3, 4}


def test_a_watcher_that_fails_is_not_told_any_more_and_nothing_else_happens(tmp_path: Path) -> None:
    told: list[str] = []

    def watch(event: Event) -> None:
        told.append(event.kind)
        raise RuntimeError("the terminal is gone")

    book, _ = logbook(tmp_path, watch)
    with pytest.warns(UserWarning, match="the search goes on unwatched"):
        number = train(book, 0.5)
    assert told == ["started"]
    assert book.board.rows[number].state == "complete"


def test_a_failed_trial_keeps_its_reason_and_its_traceback(tmp_path: Path) -> None:
    book, tracker = logbook(tmp_path)
    row = book.open("reference", EXPERIMENT.space.reference_point, 10)
    book.progress(row.number, failed("ValueError: no", "Traceback …"))
    book.close(row.number, "")
    assert [t.state for t in book.trials()] == [TrialState.FAIL]
    run = tracker.client.get_run(row.run_id)
    assert (run.info.status, run.data.tags["dmltune.reason"]) == ("FAILED", "ValueError: no")
    assert [f.path for f in tracker.client.list_artifacts(row.run_id)] == ["failure.txt"]


def test_an_interrupted_trial_is_continued_in_the_same_run(tmp_path: Path) -> None:
    book, tracker = logbook(tmp_path)
    row = book.open("reference", EXPERIMENT.space.reference_point, 10)
    book.progress(row.number, TrialReport(0, 5, 10, {"map_at_r": 0.2}, 0.2, 0.2, 5))
    book.interrupt(row.number, "stopped")
    assert tracker.client.get_run(row.run_id).info.status == "KILLED"
    again, _ = logbook(tmp_path)
    assert again.interrupted() == [row.number]
    resumed = again.resume(row.number)
    assert resumed.run_id == row.run_id
    again.progress(row.number, TrialReport(0, 5, 10, {"map_at_r": 0.2}, 0.2, 0.2, 5))  # it comes again
    assert len(tracker.client.get_metric_history(row.run_id, "map_at_r")) == 1
