"""Which models of a search are stored: the best trials', the reference point's and the baseline's."""

from __future__ import annotations

from pathlib import Path

from dmltune.runs import TrackedRun
from dmltune.search.state import SearchState, TrialRecord
from dmltune.search.study import Study

STORED_BEST = 3  # of the search's points, besides those of the reference point and the baseline


class StoredModels:
    """Stores models as artifacts of the trials' runs, and drops those that were overtaken."""

    def __init__(self, study: Study, state: SearchState) -> None:
        self._study = study
        self._state = state
        self._models: set[int] = set(study.attribute("models", []))

    def store(self, record: TrialRecord, run: TrackedRun, folder: Path) -> None:
        """Store the model of a complete trial if it is one of the best, or no point of the sampler."""
        if record.state != "complete" or record.role == "repeat":
            return
        self._state.put(record)
        best = [row.number for row in self._state.complete() if row.role in ("reference", "search")]
        best = best[:STORED_BEST]
        if record.number in best or record.role != "search":
            run.store_model(folder)
            self._note(record.number, True)
        for number in self._models - {*best}:
            row = self._state.rows[number]
            if row.role == "search":
                run.tracker.drop_model(row.run_id)
                self._note(number, False)

    @property
    def numbers(self) -> frozenset[int]:
        """The trials whose models are stored."""
        return frozenset(self._models)

    def _note(self, number: int, stored: bool) -> None:
        (self._models.add if stored else self._models.discard)(number)
        self._study.set_attribute("models", sorted(self._models))  # a finished trial takes no attributes
