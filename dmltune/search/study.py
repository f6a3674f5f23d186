"""The persistent Optuna study of a search: what a resume starts from."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import SCHEMA_VERSION
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from dmltune.errors import UserError
from dmltune.search.patient_storage import PatientStorage, opened_patiently
from dmltune.store import Store, without_password

DATABASE = "optuna.db"
ABOUT = "about"  # the study attribute with the facts of `Study.describe`
_UNREADABLE = (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ValueError, KeyError, OSError)


class Study:
    """One study. Trials are addressed by their number, which is also their number in MLflow."""

    def __init__(self, store: Store, name: str, mode: str) -> None:
        with readable_database(store, name), store.creation_lock():
            self._storage = open_storage(store)
            self._study = opened_patiently(
                lambda: optuna.create_study(
                    study_name=name,
                    storage=self._storage,
                    direction="maximize" if mode == "max" else "minimize",
                    load_if_exists=True,
                )
            )
            self._study_id = self._storage.get_study_id_from_name(name)
            self._ids: dict[int, int] = {}  # of trials, by their number
            if any(trial.state == TrialState.COMPLETE and trial.values is None for trial in self.trials()):
                raise ValueError("a complete trial has no value")

    def describe(self, metric: str, about: Mapping[str, Any]) -> None:
        """Store what the scores are, which optuna-dashboard shows, and facts about the search."""
        if self._study.metric_names != [metric]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                self._study.set_metric_names([metric])
        facts = {"metric": metric, **about}
        if self.attribute(ABOUT, None) != facts:
            self.set_attribute(ABOUT, facts)

    def trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def trial(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self._id(number))

    def create(self, template: FrozenTrial) -> int:
        """Add a RUNNING trial and return its number."""
        return self._storage.get_trial_number_from_id(
            self._storage.create_new_trial(self._study_id, template)
        )

    def set_score(self, number: int, step: int, score: float) -> None:
        self._storage.set_trial_intermediate_value(self._id(number), step, score)

    def set_attributes(self, number: int, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self._storage.set_trial_user_attr(self._id(number), key, value)

    def finish(self, number: int, state: TrialState, score: float | None) -> None:
        self._storage.set_trial_state_values(self._id(number), state, None if score is None else [score])

    def attribute(self, key: str, default: Any) -> Any:
        return self._study.user_attrs.get(key, default)

    def set_attribute(self, key: str, value: Any) -> None:
        self._study.set_user_attr(key, value)

    # ---- what the sampler stores

    def sampler_state(self) -> dict[str, Any]:
        stored = self._storage.get_study_system_attrs(self._study_id)
        return {key: value for key, value in stored.items() if not key.startswith("study:")}  # Optuna's own

    def store_sampler_state(self, values: Mapping[str, Any]) -> None:
        before = self.sampler_state()
        for key, value in values.items():
            if before.get(key) != value:
                json.dumps(value)  # Optuna stores JSON
                self._storage.set_study_system_attr(self._study_id, key, value)

    def _id(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._ids[number]


@contextlib.contextmanager
def readable_database(store: Store, name: str) -> Iterator[None]:
    """Turn errors of the database into one line that names the study `name`."""
    if store.owns_studies:
        store.require_database(DATABASE)
    try:
        yield
    except _UNREADABLE as error:
        url = without_password(store.optuna_url)
        raise UserError(
            f"the study '{name}' cannot be read from {url} ({type(error).__name__}). "
            "Restore the database from a backup, or choose another --store."
        ) from None


def open_storage(store: Store) -> RDBStorage:
    """Connect to the database of all studies; a ValueError when a newer Optuna has written it."""
    url = store.optuna_url
    if url.startswith("sqlite"):  # wait for another writer
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60}})
    else:
        options = {"pool_pre_ping": True}
        storage = opened_patiently(lambda: PatientStorage(url, engine_kwargs=options))
    with storage.engine.connect() as connection:
        version = connection.exec_driver_sql("SELECT schema_version FROM version_info").scalar_one()
    if version > SCHEMA_VERSION:
        raise ValueError("the schema is that of a newer Optuna")
    return storage


def delete_study(store: Store, name: str) -> None:
    """Delete the study with all its trials; one that is not there is deleted already."""
    with readable_database(store, name), store.creation_lock():
        storage = open_storage(store)
        ids = {study.study_name: study._study_id for study in storage.get_all_studies()}
        if name in ids:
            storage.delete_study(ids[name])
