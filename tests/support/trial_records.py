"""Records of trials in a real SQLite study and a real MLflow store, without Ray."""

from __future__ import annotations

from pathlib import Path

from dmltune.experiment import Experiment, load_experiment
from dmltune.runs import TrackedRun
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposal
from dmltune.search.state import SearchState, Watch
from dmltune.store import Store
from dmltune.tracking import SpooledTracker
from dmltune.train.orders import TrialReport
from support.stores import new_store

EXPERIMENT = load_experiment("glyphs-ccp")
REFERENCE = Proposal(EXPERIMENT.space.reference_point)


def open_records(
    folder: Path, watch: Watch | None = None, experiment: Experiment = EXPERIMENT
) -> TrialRecords:
    store = Store.at(folder) if (folder / "mlflow.db").exists() else new_store(folder)
    tracker = SpooledTracker(store, store.search_folder("s"))  # as a search does
    parent = TrackedRun.open(
        tracker, tracker.experiment("some-space"), "s", role="search", metric="map_at_r", params={}, about={}
    )
    state = SearchState("s", "some-space", "map_at_r", "max", trials_planned=9)
    return TrialRecords(store, state, experiment, parent, {"some": "tag"}, watch)


def write_model(records: TrialRecords, number: int) -> Path:
    model = records.trial_folder(number) / "best" / "model.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    return model


def report_of(score: float) -> TrialReport:
    return TrialReport(1, 10, 10, {"map_at_r": score}, score, score, 10, finished=True, reason="max_steps")


def run_trial(records: TrialRecords, score: float) -> int:
    """Run a trial that leaves a model and ends with this score; return its number."""
    record = records.open("search" if records.points() else "reference", REFERENCE, 10)
    write_model(records, record.number)
    records.progress(record.number, report_of(score), EXPERIMENT)
    records.close(record.number, "")
    return record.number
