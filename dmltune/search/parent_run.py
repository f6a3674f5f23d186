"""The run of the whole search: what it was made of, and at its end the winner, the result and a picture."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dmltune.experiment import Experiment
from dmltune.report.search_figure import draw
from dmltune.search.records import TrialRecords
from dmltune.search.state import SearchResult
from dmltune.provenance import version_tags
from dmltune.tracking import Tracker


def about(experiment: Experiment, fingerprint: str) -> dict[str, Any]:
    """The tags that say what made a run: seed, data, protocol, commit, versions."""
    return {
        "dmltune.seed": experiment.seed,
        "dmltune.data": f"{experiment.data.name}:{fingerprint}",
        "dmltune.protocol": experiment.objective.protocol,
        **version_tags(),
    }


def open_parent(
    tracker: Tracker, experiment_id: str, name: str, experiment: Experiment, tags: Mapping[str, Any]
) -> str:
    """The search's run, opened again when there is one. Returns its id."""
    state = {"dmltune.role": "search", "dmltune.state": "running", "dmltune.reason": ""}
    key = {"dmltune.search": name, "dmltune.number": "parent"}
    notes = {"mlflow.note.content": experiment.about}
    params = experiment.settings()
    run_id = tracker.open_run(experiment_id, name, key, params, {**tags, **notes, **state})
    tracker.log_json(run_id, "experiment.json", experiment.to_dict())
    return run_id


def close_parent(tracker: Tracker, result: SearchResult) -> None:
    run_id, winner = result.parent_run_id, result.winner
    if winner is not None and winner.best is not None:
        tracker.log(run_id, winner.number, {"best_" + result.metric: winner.best})
        tracker.tag(run_id, {"dmltune.winner": winner.run_id, "dmltune.winner_trial": winner.number})
    tracker.log_json(run_id, "result.json", result.to_dict())
    with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
        tracker.log_file(run_id, draw(result, Path(scratch) / "search.png"))
    state: Literal["interrupted", "complete"] = "interrupted" if result.interrupted else "complete"
    tracker.close_run(run_id, state, "the same command continues" if result.interrupted else "")


def leave(logbook: TrialRecords, tracker: Tracker, parent: str, reason: str) -> None:
    """Something unforeseen ends the search: no run stays RUNNING, everything can be continued."""
    with contextlib.suppress(Exception):
        for number in logbook.under_way:
            logbook.interrupt(number, reason)
        tracker.close_run(parent, "interrupted", reason)
