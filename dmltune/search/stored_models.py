"""Which models are stored: those of the best and the repeated trials, the reference point, the baseline."""

from __future__ import annotations

from pathlib import Path

from dmltune.runs import TrackedRun
from dmltune.search.front import no_costlier
from dmltune.search.state import SearchState, TrialRecord
from dmltune.search.study import Study

STORED_BEST = 3  # of the search's points; repeated ones, reference point and baseline are stored besides


class StoredModels:
    """Stores models as artifacts of the trials' runs, and drops those that were overtaken."""

    def __init__(self, study: Study, state: SearchState) -> None:
        self._study = study
        self._state = state
        self._models: set[int] = set(study.attribute("models", []))

    def store(self, record: TrialRecord, run: TrackedRun, folder: Path) -> None:
        """Store the model of a complete trial if it is one of the best, or no point of the sampler.

        A repetition may show that a configuration is the best one: what is trained again has a model, its
        own or that of its first repetition.
        """
        if record.state != "complete" or record.role == "cheap":
            return
        self._state.put(record)
        rows = self._state.rows.values()
        best = self._best()
        if record.repeats is not None:
            wanted = self.of(record.repeats) is None
        else:
            wanted = record.number in best or record.role != "search"
        if wanted:
            run.store_model(folder)
            self._note(record.number, True)
        repeated = {row.repeats for row in rows}
        for number in self._models - {*best} - repeated:
            row = self._state.rows[number]
            if row.role == "search":
                run.tracker.drop_model(row.run_id)
                self._note(number, False)

    def of(self, configuration: int) -> int | None:
        """Return the trial whose model stands for this one: itself, or a repetition of it."""
        if configuration in self._models:
            return configuration
        return next((n for n in sorted(self._models) if self._state.rows[n].repeats == configuration), None)

    def _best(self) -> list[int]:
        """Return the points that fewer than `STORED_BEST` others surpass at no higher costs.

        So the models of the front are stored too, where the search has costs.
        """
        points = [row for row in self._state.complete() if row.role in ("reference", "search")]
        found: list[int] = []
        for index, row in enumerate(points):
            rivals = sum(no_costlier(other.costs.values(), row.costs.values()) for other in points[:index])
            if rivals < STORED_BEST:
                found.append(row.number)
        return found

    @property
    def configurations(self) -> dict[int, int]:
        """Return which configurations have a model, and the trial that it comes from."""
        numbers = {self._configuration(number) for number in self._models}
        return {number: trial for number in numbers if (trial := self.of(number)) is not None}

    def _configuration(self, number: int) -> int:
        repeats = self._state.rows[number].repeats
        return number if repeats is None else repeats

    def _note(self, number: int, stored: bool) -> None:
        (self._models.add if stored else self._models.discard)(number)
        self._study.set_attribute("models", sorted(self._models))  # a finished trial takes no attributes
