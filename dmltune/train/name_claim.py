"""A name stands for one configuration on one data set, and for one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator

from dmltune.core.checkpoint import replace_file
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.store import Store

IDENTITY = "experiment.json"
BUDGET = ("trials", "about")  # may differ between the sessions of one search


@contextlib.contextmanager
def claim_name(store: Store, name: str, experiment: Experiment, fingerprint: str) -> Iterator[None]:
    """Hold the name while the block runs; refuse another configuration under it, and a second process."""
    folder = store.search_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a") as lock:
        try:
            fcntl.flock(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # the kernel lets go when the process ends, however
        except OSError:
            raise UserError(
                f"'{name}' is running in another process. Wait for it, or choose another --name."
            ) from None
        identity = folder / IDENTITY
        if identity.is_file():
            _compare(name, json.loads(identity.read_text()), experiment, fingerprint)
        else:
            document = {"experiment": experiment.to_dict(), "data": fingerprint}
            replace_file(identity, json.dumps(document, indent=1).encode())
        yield


def data_fingerprint(store: Store, name: str) -> str:
    """Of the data that the name was claimed with."""
    return str(json.loads((store.search_folder(name) / IDENTITY).read_text())["data"])


def _compare(name: str, then: dict[str, object], experiment: Experiment, fingerprint: str) -> None:
    remedy = f"Choose another --name, or take the change back to continue '{name}'."
    before = Experiment.from_dict(then["experiment"])  # type: ignore[arg-type]
    differences = before.differences(experiment, ignore=BUDGET)
    if differences:
        raise UserError(f"'{name}' was made with another configuration: {'; '.join(differences)}. {remedy}")
    if then["data"] != fingerprint:
        raise UserError(
            f"'{name}' was made with other data: fingerprint {then['data']} → {fingerprint}. {remedy}"
        )
