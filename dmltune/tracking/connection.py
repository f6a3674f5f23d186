"""The connection to the tracking store: MLflow's client, and the files behind artifact addresses."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from dmltune.artifact_addresses import repair_addresses
from dmltune.errors import UserError, readable
from dmltune.store import Store, without_password
from dmltune.tracking_server import require_answer

MOST_PAGES = 500  # of 1,000 entries each
MOST_KNOWN = 20


def all_pages(ask: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield the entries of all pages; `ask` gets the token of each. Pages without an end are refused."""
    token: str | None = None
    tokens: set[str] = set()
    ids: set[str] = set()
    known = 0  # pages in a row without anything new: a server may filter after it has cut pages
    while True:
        page = ask(token)
        new = {_id_of(entry) for entry in page} - ids
        yield from page
        token, known, ids = page.token, 0 if new else known + 1, ids | new
        if not token:
            return
        if token in tokens or known > MOST_KNOWN or len(tokens) > MOST_PAGES:
            circle = token in tokens
            why = "a page leads back to itself" if circle else f"more than {len(tokens) + 1} pages"
            raise UserError(f"the tracking server's list has no end: {why}. Check MLFLOW_TRACKING_URI.")
        tokens.add(token)


def _id_of(entry: Any) -> str:
    """Return the id of an experiment or a run."""
    return str(entry.experiment_id if hasattr(entry, "experiment_id") else entry.info.run_id)


class Connection:
    """MLflow's client of one store, connected at first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        for name in ("alembic", "mlflow.store.db.utils", "mlflow.tracking.fluent"):
            logging.getLogger(name).setLevel(logging.ERROR)

    @cached_property
    def client(self) -> MlflowClient:
        """Connect, and create or migrate the database. A store that does not answer is a UserError."""
        uri = self._store.tracking_uri
        if self._store.owns_tracking:
            self._store.require_database("mlflow.db")
        else:
            require_answer(uri)
        try:
            # what only reads a server's runs makes no folder
            makes = self._store.owns_tracking or self._store.root.is_dir()
            with self._store.creation_lock() if makes else contextlib.nullcontext():
                if self._store.owns_tracking:
                    repair_addresses(self._store.root / "mlflow.db", self._store.artifacts)
                client = MlflowClient(tracking_uri=uri, registry_uri=uri)
                client.search_experiments(max_results=1)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"the tracking store does not answer: {without_password(uri)} ({type(error).__name__}). "
                "Check MLFLOW_TRACKING_URI or --store."
            ) from None
        return client

    @property
    def database(self) -> Any:
        """MLflow's store behind the client, for what its client cannot do; only of a store's own database."""
        assert self._store.owns_tracking
        return self.client._tracking_client.store

    def experiment_ids(self) -> list[str]:
        """Return the ids of all experiments, of which a server gives 1,000 at a time."""
        if not self._store.has_runs:  # a question makes no database
            return []
        pages = all_pages(lambda token: self.client.search_experiments(page_token=token))
        return [experiment.experiment_id for experiment in pages]

    def delete_files(self, uri: str, path: str | None = None) -> None:
        """Delete the artifacts at this address; of a store's own, their empty folders too.

        The database of a store that somebody else made could name any folder: only those inside are deleted.
        """
        parts = urlsplit(uri)
        if self._store.owns_tracking and parts.scheme in ("", "file"):
            named = Path(unquote(parts.path))
            inside = self._store.artifacts.resolve()
            if inside not in named.resolve().parents or (path and ".." in Path(path).parts):
                raise UserError(
                    f"the store {self._store.root} has a run whose files are outside of it, in "
                    f"{readable(str(named))}. Nothing there is removed; delete the run with MLflow."
                )
        repository: Any = get_artifact_repository(uri, tracking_uri=self._store.tracking_uri)
        self._bring(uri)  # MLflow deletes what it finds
        repository.delete_artifacts(path)
        folder = self.local_folder(uri)
        if folder is not None and self._store.artifacts in folder.parents:
            self._store.discard(folder / path if path else folder)
        folder = None if path else folder
        while folder is not None and self._store.artifacts in folder.parents:
            if folder.is_dir() and any(folder.iterdir()):
                return
            with contextlib.suppress(OSError):
                folder.rmdir()
            folder = folder.parent

    def _bring(self, uri: str) -> None:
        """Let artifacts of a store at an address be on this machine."""
        folder = self.local_folder(uri)
        if folder is not None and self._store.artifacts in folder.parents:
            self._store.bring(folder)

    @staticmethod
    def local_folder(uri: str) -> Path | None:
        """Return the folder of artifacts on this machine; None for those elsewhere."""
        parts = urlsplit(uri)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None
