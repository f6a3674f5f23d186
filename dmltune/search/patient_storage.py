"""Optuna's storage on a database server that may restart: a call waits for it and is made once.

A study says what a resumed search does, so nothing goes on without it. A call whose connection broke may have
been done: setting a value twice changes nothing, a trial that is finished already is finished, and a trial is
recognised by an attribute of its own.
"""

from __future__ import annotations

import copy
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy.exc import DBAPIError, OperationalError

from dmltune.errors import NOTE

WAIT_S, PAUSE_S = 300.0, 1.0
REFUSED_S = 5.0  # of a server that may restart; a wrong address is no reason to wait for minutes
_RESTARTING = ("starting up", "shutting down", "recovery mode", "closed the connection", "terminating")
OPENED = "opened"  # user attribute: names the call that made a trial
_METHODS = (
    *("set_study_user_attr", "set_study_system_attr", "get_study_user_attrs", "get_study_system_attrs"),
    *("get_trial", "get_all_trials", "get_all_studies", "get_trial_id_from_study_id_trial_number"),
    *("get_trial_number_from_id", "get_study_id_from_name", "get_study_directions", "get_study_name_from_id"),
    *("set_trial_intermediate_value", "set_trial_user_attr", "set_trial_system_attr", "set_trial_param"),
    "set_trial_state_values",
)
T = TypeVar("T")
logger = logging.getLogger(__name__)


def is_away(error: BaseException) -> bool:
    """Return whether the database's server has not answered, or has broken the connection."""
    cause = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
    return isinstance(cause, OperationalError) or (
        isinstance(cause, DBAPIError) and cause.connection_invalidated
    )


class PatientStorage(RDBStorage):
    """RDBStorage whose calls wait up to `WAIT_S` for the server. Other errors are as they were."""

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        if template_trial is None:
            return super().create_new_trial(study_id)
        token = secrets.token_hex(8)
        template = copy.deepcopy(template_trial)
        template.set_user_attr(OPENED, token)

        def create(again: bool) -> int:
            if again:
                for trial in reversed(super(PatientStorage, self).get_all_trials(study_id, deepcopy=False)):
                    if trial.user_attrs.get(OPENED) == token:
                        return int(trial._trial_id)
            return int(super(PatientStorage, self).create_new_trial(study_id, template))

        return int(_patiently(create))


def opened_patiently(call: Callable[[], T]) -> T:
    """Return what `call` returns, which opens a storage or a study on a server that may be restarting."""
    began = time.monotonic()
    while True:
        try:
            return call()
        except Exception as error:
            waited, text = time.monotonic() - began, f"{error} {error.__cause__}"
            limit = WAIT_S if any(sign in text for sign in _RESTARTING) else 0.0
            if not is_away(error) or waited > (REFUSED_S if "refused" in text else limit):
                raise
        if waited < PAUSE_S:
            logger.log(NOTE, "the database of the studies does not answer; waiting for it")
        time.sleep(PAUSE_S)


def _patiently(call: Callable[[bool], Any]) -> Any:
    """Return what `call(again)` returns, once the server answers."""
    deadline, told, again = time.monotonic() + WAIT_S, False, False
    while True:
        try:
            return call(again)
        except optuna.exceptions.UpdateFinishedTrialError:
            if not again:
                raise
            return True  # it was done before the connection broke
        except Exception as error:
            if not is_away(error) or time.monotonic() > deadline:
                raise
        again = True
        if not told:
            logger.log(NOTE, "the database of the studies does not answer; waiting for it")
            told = True
        time.sleep(PAUSE_S)


def _patient(name: str) -> Callable[..., Any]:
    direct = getattr(RDBStorage, name)

    def method(self: PatientStorage, *args: Any, **options: Any) -> Any:
        return _patiently(lambda again: direct(self, *args, **options))

    method.__name__ = name
    return method


for _name in _METHODS:
    if hasattr(RDBStorage, _name):
        setattr(PatientStorage, _name, _patient(_name))
