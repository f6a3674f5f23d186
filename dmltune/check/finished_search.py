"""A search as its runs have it: the experiment with its space, the trials, the winner."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmltune.errors import UserError, nearest
from dmltune.experiment import Experiment
from dmltune.tracking import Run, Tracker


@dataclass(frozen=True)
class FinishedSearch:
    """Scores are those of the search's own validation classes."""

    name: str
    space_name: str
    experiment: Experiment
    rows: tuple[Mapping[str, Any], ...]
    metric: str
    mode: str
    protocol: str
    fingerprint: str  # of the data it saw
    unfinished: bool

    def complete(self) -> list[Mapping[str, Any]]:
        """The points of the space that were trained to the end, best first; not the baseline."""
        sign = -1 if self.mode == "max" else 1
        done = [
            row
            for row in self.rows
            if row["role"] != "baseline" and row["state"] == "complete" and row["best"] is not None
        ]
        return sorted(done, key=lambda row: (sign * row["best"], row["number"]))

    def best(self, top: int) -> list[Mapping[str, Any]]:
        done = self.complete()
        if not done:
            raise UserError(
                f"search '{self.name}' has no complete trial yet. "
                "Continue it with the same command, then check it."
            )
        if top > len(done):
            raise UserError(
                f"--top must be at most {len(done)}, the complete trials of '{self.name}'; got {top}"
            )
        return done[:top]


def load_finished_search(name: str, tracker: Tracker) -> FinishedSearch:
    found = tracker.find(name)
    if found is None:
        known = tracker.names()
        hint = nearest(name, known) or (f"; there are {', '.join(known)}" if known else "")
        raise UserError(f"no search '{name}' in this store{hint}")
    role = found.data.tags.get("dmltune.role", "run")
    if role != "search":
        raise UserError(f"dmltune check takes a search; '{name}' is a {role}. Name the search.")
    result = json_artifact(tracker, found, "result.json")
    if result is None:
        raise UserError(
            f"search '{name}' has not ended yet. Continue it with the same command, then check it."
        )
    return FinishedSearch(
        name=result["name"],
        space_name=result["space_name"],
        experiment=Experiment.from_dict(json_artifact(tracker, found, "experiment.json") or {}),
        rows=tuple(result["rows"]),
        metric=result["metric"],
        mode=result["mode"],
        protocol=result["protocol"],
        fingerprint=found.data.tags.get("dmltune.data", "").rpartition(":")[2],
        unfinished=bool(result["interrupted"]),
    )


def json_artifact(tracker: Tracker, run: Run, name: str) -> Any:
    """A JSON document kept with a run; None when it has none of this name."""
    client = tracker.client
    if name not in {file.path for file in client.list_artifacts(run.info.run_id)}:
        return None
    with tempfile.TemporaryDirectory(prefix="dmltune-") as scratch:
        return json.loads(Path(client.download_artifacts(run.info.run_id, name, scratch)).read_text())
