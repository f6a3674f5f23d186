"""The searches of a store, finished or running, as their study and their runs have them. Only reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from dmltune import tags
from dmltune.errors import UserError, readable
from dmltune.experiment import Experiment
from dmltune.provenance import is_elsewhere
from dmltune.search.restoring import record_of
from dmltune.search.session_options import OPTIONS, SessionOptions
from dmltune.search.state import Front, FrontMember, Outcome, Range, TrialRecord
from dmltune.search.study import ABOUT, DATABASE, open_storage, readable_database
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.train.name_holder import is_held

SearchStatus = Literal["running", "complete", "interrupted"]
POINTS = ("reference", "search")  # the roles of points of the space
RESULT = "result.json"


def outcome_in(tree: Any) -> Outcome | None:
    """Return the outcome of a result.json; None for a search of a version that stored none."""
    tree = tree.get("verdict") if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or not isinstance(tree.get("winner"), int):
        return None
    numbers, noise, is_noise = tree.get("winner_set"), tree.get("noise"), tree.get("lead_is_noise")
    return Outcome(
        winner=tree["winner"],
        winner_set=tuple(numbers) if isinstance(numbers, list) else (),
        noise=float(noise) if isinstance(noise, int | float) else None,
        corrected=_range(tree.get("corrected")),
        lead=_range(tree.get("lead")),
        lead_is_noise=is_noise if isinstance(is_noise, bool) else None,
    )


def front_in(tree: Any) -> Front | None:
    """Return the front of a result.json; None for a search with one objective."""
    tree = tree.get("front") if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or not tree.get("members"):
        return None
    members = [
        FrontMember(each["trial"], float(each["score"]), _range(each["interval"]), dict(each["costs"]))
        for each in tree["members"]
    ]
    return Front(tuple(tree["against"]), tuple(members), tree.get("knee"))


def _range(tree: Any) -> Range | None:
    keys = ("mean", "low", "high")
    if not isinstance(tree, Mapping) or not all(isinstance(tree.get(key), int | float) for key in keys):
        return None
    return Range(*(float(tree[key]) for key in keys))


@dataclass(frozen=True)
class StoredSearch:
    """One search. `trials` are Optuna's; `rows` the same as the tables show them."""

    name: str
    space_name: str
    metric: str
    mode: Literal["max", "min"]
    status: SearchStatus
    trials: tuple[FrozenTrial, ...]
    planned: int | None
    options: SessionOptions | None  # of the last session; None for one of a version that stored none
    labels: Mapping[str, str]  # the tags of the search's run
    run_id: str
    started: float | None
    ended: float | None  # of the last session; None while it runs
    store: Store = field(repr=False)
    tracker: Tracker = field(repr=False)

    @cached_property
    def rows(self) -> tuple[TrialRecord, ...]:
        records = [record_of(trial, self.mode) for trial in self.trials]
        for record, trial in zip(records, self.trials, strict=True):
            if self.status == "running" and trial.state == TrialState.RUNNING:
                record.state = "running"
        return tuple(records)

    @cached_property
    def experiment(self) -> Experiment:
        """The configuration that the name stands for."""
        from dmltune.train.name_claim import claimed_experiment

        if (experiment := claimed_experiment(self.store, self.name)) is not None:
            return experiment
        tree = self.tracker.read_json(self.run_id, "experiment.json")
        if tree is None:
            raise UserError(
                f"the configuration of '{self.name}' is neither in {self.store.search_folder(self.name)} nor "
                "in its run. Restore the store from a backup."
            )
        return Experiment.from_dict(tree)

    @cached_property
    def outcome(self) -> Outcome | None:
        """What the repetitions say about the winner, as the end of the last session has stored it."""
        return outcome_in(self.tracker.read_json(self.run_id, RESULT))

    @cached_property
    def front(self) -> Front | None:
        """The front as the end of the last session has stored it; None without several objectives."""
        return front_in(self.tracker.read_json(self.run_id, RESULT))

    @property
    def winner(self) -> TrialRecord | None:
        """The winner of a complete search, else the best complete point so far; None without one."""
        numbers = [self.labels.get(tags.WINNER_TRIAL, "")] if self.status == "complete" else []
        chosen = [row for row in self.points() if str(row.number) in numbers]
        return chosen[0] if chosen else next(iter(self.best()), None)

    def best(self) -> list[TrialRecord]:
        """Return the complete points of the space that have a score, best first."""
        sign = -1 if self.mode == "max" else 1
        scored = [row for row in self.points() if row.state == "complete" and row.best is not None]
        return sorted(scored, key=lambda row: (sign * (row.best or 0.0), row.number))

    def points(self) -> list[TrialRecord]:
        return [row for row in self.rows if row.role in POINTS]

    def row(self, number: int) -> TrialRecord:
        """Return a trial by its number."""
        for row in self.rows:
            if row.number == number:
                return row
        last = max((row.number for row in self.rows), default=None)
        existing = "it has none yet" if last is None else f"it has 0 to {last}"
        raise UserError(f"search '{self.name}' has no trial {number}; {existing}")

    def experiment_of(self, record: TrialRecord) -> Experiment:
        """Return what a trial trains, with its own seed and fold."""
        original = 0 if record.role == "repeat" and record.repeats is None else record.repeats
        if original is not None and original != record.number:
            experiment = self.experiment_of(self.row(original))
        elif record.role == "baseline":
            baseline = self.experiment.baseline_experiment()
            if baseline is None:
                raise UserError(f"trial {record.number} of '{self.name}' is a baseline that its space lacks")
            experiment = baseline
        elif record.role == "cheap":
            experiment = self.experiment.cheap_point(record.values)
        else:
            experiment = self.experiment.point(record.values)
        own = {"seed": record.seed, "fold": record.fold}
        own = {key: value for key, value in own.items() if value is not None}
        return experiment.with_values(own) if own else experiment


class StoredSearches:
    """All searches of a store. A store without databases has none, and stays without."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tracker = Tracker(store)

    def all(self) -> list[StoredSearch]:
        """Return all searches, the latest last."""
        found = list(self._read(self._parents()))
        return sorted(found, key=lambda search: (search.started or 0.0, search.name))

    def get(self, name: str) -> StoredSearch:
        """Return the search with this name; a UserError names the nearest one, or what the name is."""
        parents = self._parents()
        for search in self._read(run for run in parents if run.data.tags.get(tags.NAME) == name):
            return search
        run = self.tracker.find(name)
        if run is not None and (role := run.data.tags.get(tags.ROLE)) is not None:
            raise UserError(f"{readable(name)} is a {role}, not a search. Name the search.")
        names = [str(run.data.tags.get(tags.NAME)) for run in parents]
        raise self.tracker.unknown("search", name, names)

    def state_of(self, name: str) -> str:
        """Return the state of what has this name, a search or not; a UserError when nothing has it."""
        run = self.tracker.find(name)
        if run is None and (self.store.search_folder(name) / "experiment.json").is_file():
            return "not begun"
        if run is None or run.data.tags.get(tags.ROLE) == "search":
            return self.get(name).status
        return str(run.data.tags.get(tags.STATE, "unknown"))

    def _parents(self) -> list[Run]:
        where = f"tags.`{tags.ROLE}` = 'search' and tags.`{tags.NUMBER}` = '{tags.PARENT}'"
        return self.tracker.runs(where)

    def _read(self, parents: Iterable[Run]) -> Iterator[StoredSearch]:
        if self.store.owns_studies and not (self.store.root / DATABASE).is_file():
            return
        parents = list(parents)
        names = ", ".join(str(run.data.tags.get(tags.NAME)) for run in parents[:1])
        with readable_database(self.store, names or "of a search"):
            storage = open_storage(self.store)
            ids = {study.study_name: study._study_id for study in storage.get_all_studies()}
            for run in parents:
                yield self._search(run, storage, ids.get(str(run.data.tags.get(tags.NAME))))

    def _search(self, run: Run, storage: RDBStorage, study_id: int | None) -> StoredSearch:
        labels = dict(run.data.tags)
        name = labels[tags.NAME]
        trials = [] if study_id is None else storage.get_all_trials(study_id, deepcopy=False)
        facts = {} if study_id is None else storage.get_study_user_attrs(study_id)
        about, options = facts.get(ABOUT, {}), facts.get(OPTIONS)
        upwards = study_id is None or storage.get_study_directions(study_id)[0] == StudyDirection.MAXIMIZE
        status = self._status(run)
        begun = [time for trial in trials if (time := _seconds(trial.datetime_start)) is not None]
        over = [time for trial in trials if (time := _seconds(trial.datetime_complete)) is not None]
        over += [run.info.end_time / 1000] if run.info.end_time else []
        return StoredSearch(
            name=name,
            space_name=str(about.get("space") or self._space(run)),
            metric=str(about.get("metric") or self._metric(run)),
            mode="max" if upwards else "min",
            status=status,
            trials=tuple(trials),
            planned=about.get("planned") or (len(trials) if status == "complete" else None),
            options=None if options is None else SessionOptions.from_dict(options),
            labels=labels,
            run_id=str(run.info.run_id),
            started=min(begun, default=run.info.start_time / 1000),
            ended=None if status == "running" else max(over, default=None),
            store=self.store,
            tracker=self.tracker,
        )

    def _status(self, run: Run) -> SearchStatus:
        labels = run.data.tags
        name = labels[tags.NAME]
        if is_held(self.store, name):
            return "running"
        other_store = not self.store.search_folder(name).exists()  # of another machine, with the same server
        if other_store and run.info.status == "RUNNING" and is_elsewhere(labels.get(tags.DRIVER, "")):
            return "running"
        return "complete" if labels.get(tags.STATE) == "complete" else "interrupted"

    def _metric(self, run: Run) -> str:
        """Return the metric of a search whose study does not name it."""
        best = [key.removeprefix("best_") for key in run.data.metrics if key.startswith("best_")]
        if best:
            return best[0]
        from dmltune.train.name_claim import claimed_experiment

        experiment = claimed_experiment(self.store, run.data.tags[tags.NAME])
        return experiment.objective.metric if experiment else "map_at_r"

    def _space(self, run: Run) -> str:
        return str(self.tracker.client.get_experiment(run.info.experiment_id).name)


def _seconds(time: datetime | None) -> float | None:
    """Return seconds since 1970; Optuna's times are local ones without a zone."""
    return None if time is None else time.timestamp()
