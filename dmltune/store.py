"""Where everything that lasts is kept: one folder, `./mlruns` unless the user says otherwise.

mlflow.db     runs and metrics (MLflow)          artifacts/    checkpoints and reports (MLflow)
optuna.db     every study (Optuna)               searches/     what an interrupted search needs to go on
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmltune.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Store:
    """The folder of all results. $MLFLOW_TRACKING_URI and $DMLTUNE_OPTUNA_STORAGE may name servers."""

    root: Path

    @classmethod
    def at(cls, folder: str | os.PathLike[str] | None = None) -> Store:
        """The store in `folder`, in $DMLTUNE_STORE, or in ./mlruns; the folder is made when it is missing."""
        root = Path(folder or os.environ.get("DMLTUNE_STORE") or "mlruns").expanduser().absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"the store must be a folder that can be written; got {root} ({error.strerror}). "
                "Choose another with --store."
            ) from None
        if not os.access(root, os.W_OK):
            raise UserError(f"the store must be writable; got {root}. Choose another with --store.")
        return cls(root)

    @property
    def tracking_uri(self) -> str:
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def owns_tracking(self) -> bool:
        """True when runs go to this folder's own database and not to a tracking server."""
        return not os.environ.get("MLFLOW_TRACKING_URI")

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def optuna_url(self) -> str:
        return os.environ.get("DMLTUNE_OPTUNA_STORAGE") or f"sqlite:///{self.root / 'optuna.db'}"

    @property
    def searches(self) -> Path:
        return self.root / "searches"

    @contextlib.contextmanager
    def creating(self) -> Iterator[None]:
        """One process at a time makes or migrates the databases; two at once would collide."""
        with open(self.root / ".creating", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def search_folder(self, name: str) -> Path:
        return self.searches / validated_name(name)


def validated_name(name: str) -> str:
    """`name` when it can be a folder, a study and a run at the same time."""
    if not _NAME.fullmatch(name):
        raise UserError(
            "a name must be letters, digits, '.', '_' or '-', at most 100, and start with a letter or digit; "
            f"got {name!r}"
        )
    return name


def without_password(uri: str) -> str:
    """The address with any password hidden, for logs and tables."""
    return re.sub(r"(://[^:/@]+):[^@]*@", r"\1:***@", uri)
