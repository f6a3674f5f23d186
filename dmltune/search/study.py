"""The persistent Optuna study of a search: what a resume starts from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import SCHEMA_VERSION
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from dmltune.errors import UserError
from dmltune.store import Store, without_password

DATABASE = "optuna.db"
_UNREADABLE = (SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError, ValueError, KeyError, OSError)


class Study:
    """One study. Trials are addressed by their number, which is also their number in MLflow."""

    def __init__(self, store: Store, name: str, mode: str) -> None:
        if store.owns_studies:
            store.require_database(DATABASE)
        url = store.optuna_url
        patience = {"timeout": 60} if url.startswith("sqlite") else {}  # wait for another writer
        try:
            with store.creation_lock():
                self._storage = RDBStorage(url, engine_kwargs={"connect_args": patience})
                self._study = optuna.create_study(
                    study_name=name,
                    storage=self._storage,
                    direction="maximize" if mode == "max" else "minimize",
                    load_if_exists=True,
                )
                self._study_id = self._storage.get_study_id_from_name(name)
                self._require_undamaged()
        except _UNREADABLE as error:
            raise UserError(
                f"the study '{name}' cannot be read from {without_password(url)} ({type(error).__name__}). "
                "Restore the database from a backup, or choose another --store."
            ) from None

    def _require_undamaged(self) -> None:
        """Raise a ValueError for what Optuna repairs or passes over without a message."""
        with self._storage.engine.connect() as connection:
            version = connection.exec_driver_sql("SELECT schema_version FROM version_info").scalar_one()
        if version > SCHEMA_VERSION:
            raise ValueError("the schema is that of a newer Optuna")
        if any(trial.state == TrialState.COMPLETE and trial.values is None for trial in self.trials()):
            raise ValueError("a complete trial has no value")

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
        return dict(self._storage.get_study_system_attrs(self._study_id))

    def store_sampler_state(self, values: Mapping[str, Any]) -> None:
        before = self.sampler_state()
        for key, value in values.items():
            if before.get(key) != value:
                json.dumps(value)  # Optuna stores JSON
                self._storage.set_study_system_attr(self._study_id, key, value)

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
