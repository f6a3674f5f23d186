"""A name stands for one configuration on one data set, and for one process at a time."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from dmltune.core.checkpoint import replace_file
from dmltune.errors import UserError, parse_json
from dmltune.experiment import Experiment
from dmltune.private import private_files
from dmltune.store import Store, require_regular
from dmltune.train.name_holder import LOCK, note_holder

IDENTITY = "experiment.json"
BUDGET = ("trials", "about")  # may differ between the sessions of one search
PROBED_S = 0.2  # `is_held` of another process takes the lock for an instant


@contextlib.contextmanager
def claim_name(store: Store, name: str, experiment: Experiment, fingerprint: str) -> Iterator[None]:
    """Hold the name while the block runs; refuse another configuration under it, and a second process."""
    with hold_name(store, name, "Wait for it, or choose another --name."):
        require_same(store, name, experiment, fingerprint)
        if not is_claimed(store, name):
            document = {"experiment": experiment.to_dict(), "data": fingerprint}
            replace_file(store.search_folder(name) / IDENTITY, json.dumps(document, indent=1).encode())
        yield


@contextlib.contextmanager
def hold_name(store: Store, name: str, remedy: str) -> Iterator[None]:
    """Hold the name's lock while the block runs; a second process gets a UserError with this remedy."""
    with store.owned(), _locked(store, name, remedy):
        yield


@contextlib.contextmanager
def _locked(store: Store, name: str, remedy: str) -> Iterator[None]:
    folder = store.search_folder(name)
    with private_files():
        _make(folder)
    require_regular(folder / LOCK)
    lock = FileLock(folder / LOCK, timeout=PROBED_S, mode=0o600)
    try:
        lock.acquire()  # the kernel releases it when the process ends
    except Timeout:
        raise UserError(f"'{name}' is running in another process. {remedy}") from None
    except OSError as error:
        raise UserError(
            f"{folder / LOCK} cannot be written ({error.strerror}). Choose another --store."
        ) from None
    try:
        with private_files():
            note_holder(folder)
            yield
    finally:
        lock.release()


def is_claimed(store: Store, name: str) -> bool:
    """Return whether the name stands for something already."""
    return os.path.lexists(store.search_folder(name) / IDENTITY)


def claimed_experiment(store: Store, name: str) -> Experiment | None:
    """Return what the name stands for; None for a new name."""
    return _read(store.search_folder(name) / IDENTITY, name)[0] if is_claimed(store, name) else None


def require_same(store: Store, name: str, experiment: Experiment, fingerprint: str) -> None:
    """Raise a UserError when the name stands for another configuration or other data."""
    if not is_claimed(store, name):
        return
    stored, data = _read(store.search_folder(name) / IDENTITY, name)
    remedy = f"Choose another --name, or take the change back to continue '{name}'."
    differences = stored.differences(experiment, ignore=BUDGET)
    if differences:
        raise UserError(f"'{name}' was made with another configuration: {'; '.join(differences)}. {remedy}")
    if data != fingerprint:
        raise UserError(f"'{name}' was made with other data: fingerprint {data} → {fingerprint}. {remedy}")


def _read(path: Path, name: str) -> tuple[Experiment, str]:
    require_regular(path)
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
        tree, data = document["experiment"], document["data"]
        if not isinstance(tree, dict) or not isinstance(data, str):
            raise TypeError
        return Experiment.from_dict(tree), data
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        reason = str(error) if isinstance(error, UserError) else type(error).__name__
        raise UserError(
            f"{path} is damaged ({reason}), so '{name}' cannot be continued. "
            "Restore it from a backup, or choose another --name."
        ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} must be a folder ({error.strerror}). Choose another --store.") from None
