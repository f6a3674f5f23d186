"""The store of all results: the folder `./mlruns` unless the user names another folder or an address.

mlflow.db     runs and metrics (MLflow)          artifacts/    models and reports (MLflow)
optuna.db     every study (Optuna)               searches/     checkpoints of unfinished searches
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock

from dmltune.errors import UserError, readable
from dmltune.private import private_files
from dmltune.storage.addresses import is_address, normal_address
from dmltune.storage.store_mirror import mirror_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNSAFE = re.compile(r"[%?#\x00-\x1f\x7f]")
_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True)
class Store:
    """The folder of all results. $MLFLOW_TRACKING_URI and $DMLTUNE_OPTUNA_STORAGE may name servers.

    With an `address` (s3://bucket/path) `root` is this machine's copy of it, which `storage` keeps.
    """

    root: Path
    address: str = ""

    @classmethod
    def at(cls, folder: str | os.PathLike[str] | None = None) -> Store:
        """Return the store in `folder`, $DMLTUNE_STORE or ./mlruns; a missing folder is made."""
        store = cls.to_read(folder)
        if not store.address:
            store._make()
        return store

    @classmethod
    def to_read(cls, folder: str | os.PathLike[str] | None = None) -> Store:
        """Return the same store for what writes no results; a missing folder stays missing."""
        named = str(folder or os.environ.get("DMLTUNE_STORE") or "mlruns")
        if is_address(named):
            address = normal_address(named)
            return cls(mirror_of(address).root, address)
        if _UNSAFE.search(named):  # databases are addressed by URL
            raise UserError(
                f"the store's path must not contain %, ?, # or control characters; got {readable(named)}. "
                "Choose another with --store."
            )
        try:
            root = Path(named).expanduser().absolute()
            existing = existing_folder(root)
            if not existing.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _require_permission(existing)
        except (OSError, RuntimeError, ValueError) as error:
            raise _no_folder(named, error) from None
        return cls(root)

    def _make(self) -> None:
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            self.root.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _no_folder(str(self.root), error) from None
        _require_permission(self.root)

    @property
    def place(self) -> str:
        """What the user names the store by."""
        return self.address or str(self.root)

    @contextlib.contextmanager
    def owned(self) -> Iterator[None]:
        """Write to the store in this block. One process at a time owns an address; a folder has no owner."""
        if not self.address:
            yield
            return
        with mirror_of(self.address).owned():
            yield

    def require_writable(self) -> None:
        """Raise a UserError when results cannot be written."""
        if self.address:
            mirror_of(self.address).files.require_access(write=True)
        with tempfile.TemporaryFile(dir=existing_folder(self.root)) as file:  # a plan makes no folder
            file.write(b"dmltune")

    def bring(self, folder: Path) -> None:
        """Let the files that an address has below this folder be on this machine."""
        if self.address:
            mirror_of(self.address).bring(folder)

    def subfolders(self, folder: Path) -> set[str]:
        """Return the names of the folders in this one, here and at an address."""
        names = {each.name for each in folder.iterdir()} if folder.is_dir() else set[str]()
        return names | (mirror_of(self.address).subfolders(folder) if self.address else set())

    def publish(self) -> None:
        """Return when everything is at the address. Its owner calls it; `owned` does it at its end."""
        if self.address:
            mirror_of(self.address).publish_now()

    def note_writing_workers(self) -> None:
        """Note that workers write checkpoints to the address, so that those of this machine may be older."""
        if self.address:
            mirror_of(self.address).workers_write = True

    def discard(self, path: Path) -> None:
        """Delete a file or folder, at an address too."""
        if self.address:
            mirror_of(self.address).discard(path)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    @property
    def failure(self) -> Exception | None:
        """Why nothing more can be written to the store, if so."""
        return mirror_of(self.address).failure if self.address else None

    @property
    def tracking_uri(self) -> str:
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def owns_tracking(self) -> bool:
        """True when runs go to this folder's own database and not to a tracking server."""
        return not os.environ.get("MLFLOW_TRACKING_URI")

    @property
    def has_runs(self) -> bool:
        """False while this folder has no database of runs, and no tracking server has them."""
        return not self.owns_tracking or (self.root / "mlflow.db").is_file()

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def optuna_url(self) -> str:
        return os.environ.get("DMLTUNE_OPTUNA_STORAGE") or f"sqlite:///{self.root / 'optuna.db'}"

    @property
    def owns_studies(self) -> bool:
        """True when studies go to this folder's own database."""
        return not os.environ.get("DMLTUNE_OPTUNA_STORAGE")

    @property
    def searches(self) -> Path:
        return self.root / "searches"

    @contextlib.contextmanager
    def creation_lock(self) -> Iterator[None]:
        """Let one process at a time make or migrate the databases; two at once would collide."""
        self._make()
        path = self.root / ".creating"
        require_regular(path)
        with FileLock(path, timeout=120, mode=0o600), private_files():
            yield

    def require_database(self, name: str) -> None:
        """Raise a UserError when the file `name` is there and is no readable and writable SQLite database."""
        path = self.root / name
        require_regular(path)
        if not path.exists():
            return
        if not os.access(path, os.R_OK | os.W_OK):
            raise UserError(
                f"{path} must be readable and writable. Change its mode, or choose another --store."
            )
        with path.open("rb") as file:
            begin = file.read(len(_SQLITE))
        if begin not in (b"", _SQLITE):
            raise UserError(
                f"{path} is damaged: it is no SQLite database. "
                "Restore it from a backup, or choose another --store."
            )

    def search_folder(self, name: str) -> Path:
        return self.searches / validated_name(name)


def existing_folder(root: Path) -> Path:
    """Return `root`, or its nearest parent that is there."""
    for folder in (root, *root.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder.lstat()  # an OSError for a name that no folder can have
            return folder
    return root


def _no_folder(named: str, error: Exception) -> UserError:
    reason = getattr(error, "strerror", None) or error
    return UserError(
        f"the store must be a folder that can be written; got {readable(named)} ({reason}). "
        "Choose another with --store."
    )


def _require_permission(root: Path) -> None:
    if not os.access(root, os.W_OK):
        raise UserError(
            f"the store must be writable; got {readable(str(root))}. Choose another with --store."
        )


def require_regular(path: Path) -> None:
    """Raise a UserError when something other than a regular file stands at `path`."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} must be a regular file. Move what is there away, or choose another --store.")


def validated_name(name: str) -> str:
    """Return `name` when it can be a folder, a study and a run at the same time."""
    if not _NAME.fullmatch(name):
        raise UserError(
            "a name must be letters, digits, '.', '_' or '-', at most 100, and start with a letter or digit; "
            f"got {readable(name)}"
        )
    return name


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def without_password(address: str) -> str:
    """Return the address with user names, passwords and query values hidden, for logs and tables."""
    try:
        parts = urlsplit(address)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        return re.sub(r"//.*", "//…", address)
    if "@" in address and not secret:  # an unusual form: hide all before the last @
        return re.sub(r"(^|://).*@", r"\1***@", address)
    text = re.sub(r"(://)[^/?#]*@", r"\1***@", address)
    return re.sub(r"([?&][^=&#]*=)[^&#]*", r"\1***", text)
