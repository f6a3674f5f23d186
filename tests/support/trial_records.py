"""Records of trials in a real SQLite study and a real MLflow store, without Ray."""

from __future__ import annotations

from pathlib import Path

from dmltune.experiment import Experiment, load_experiment
from dmltune.runs import TrackedRun
from dmltune.search.records import TrialRecords
from dmltune.search.state import SearchState, Watch
from dmltune.store import Store
from dmltune.tracking import Tracker
from support.stores import new_store

EXPERIMENT = load_experiment("glyphs-ccp")


def open_records(
    folder: Path, watch: Watch | None = None, experiment: Experiment = EXPERIMENT
) -> TrialRecords:
    store = Store.at(folder) if (folder / "mlflow.db").exists() else new_store(folder)
    tracker = Tracker(store)
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
