"""One owner at a time of a search on a tracking server that several people share.

A lock in the store's folder does not help when each has a folder of their own. Here a session claims its
search by a parameter of the search's run: parameters of MLflow cannot be changed, so of two sessions that
write `search.owner.3` at once the server accepts one. The owner renews a tag every few seconds. Who finds
another owner asks whether it lives: at once on the same machine, else by watching that tag, which needs no
common clock. A session that finds a later owner than itself ends.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mlflow.exceptions import MlflowException

from dmltune import tags
from dmltune.errors import UserError
from dmltune.provenance import has_ended, is_elsewhere, source_tags, this_process
from dmltune.tracking.tracker import SEARCH_PARAMS, Tracker

OWNER = f"{SEARCH_PARAMS}owner."  # and the number of the session
RENEWED = "dmltune.renewed"  # tag: session number and a count; ENDED after a session's end
ENDED = "ended"
RENEW_S = 10.0
CLAIMS = 20  # each after another session was faster
EXPIRED_S = 45.0  # without a renewal; more than a renewal and two requests that time out
SETTLE_S = 2.0  # between a look for the search's run and the end of its making by somebody else
_KEY = re.compile(re.escape(OWNER) + r"(\d{1,9})")


@dataclass
class Ownership:
    """A session's claim. `lost` says who has taken over since; empty while the claim holds."""

    tracker: Tracker
    run_id: str
    name: str
    session: int
    lost: str = ""
    _over: threading.Event = field(default_factory=threading.Event)

    def renew(self) -> None:
        """Show that this session lives, until the end."""
        count = 0
        while not self._over.wait(RENEW_S if count else 0):
            count += 1
            with contextlib.suppress(
                MlflowException, OSError
            ):  # the server is away: nobody else sees it either
                owners = _owners(self.tracker, self.run_id)
                if max(owners, default=0) > self.session:
                    self.lost = owners[max(owners)]
                    return
                self.tracker.client.set_tag(self.run_id, RENEWED, f"{self.session} {count}")

    def end(self, renewing: threading.Thread) -> None:
        """Give the search free. The last renewal is over by then, so it does not hide the end."""
        self._over.set()
        renewing.join(EXPIRED_S)
        if not self.lost:
            with contextlib.suppress(MlflowException, OSError):
                self.tracker.client.set_tag(self.run_id, RENEWED, f"{self.session} {ENDED}")

    def failure(self) -> UserError | None:
        """Return why this session may not go on."""
        if not self.lost:
            return None
        return UserError(f"'{self.name}' was taken over by {_shown(self.lost)}, so this session ends.")


@contextlib.contextmanager
def owned(tracker: Tracker, run_id: str, name: str, say: Callable[[str], None]) -> Iterator[Ownership]:
    """Own the search with this run while the block runs; a living owner is a UserError."""
    ownership = Ownership(tracker, run_id, name, _claim(tracker, run_id, name, say))
    thread = threading.Thread(target=ownership.renew, name="ownership", daemon=True)
    thread.start()
    try:
        yield ownership
    finally:
        ownership.end(thread)


def only_run(tracker: Tracker, run_id: str, name: str) -> str:
    """Return the one run of a new search: somebody else may have made one at the same moment."""
    time.sleep(SETTLE_S)
    runs = tracker.runs_of({tags.NAME: name, tags.NUMBER: tags.PARENT})
    chosen = min((str(run.info.run_id) for run in runs), default=run_id)
    if chosen != run_id:
        tracker.client.delete_run(run_id)
    return chosen


def _claim(tracker: Tracker, run_id: str, name: str, say: Callable[[str], None]) -> int:
    me = f"{source_tags().get('mlflow.user', 'somebody')} {this_process()} {secrets.token_hex(4)}"
    for _ in range(CLAIMS):
        owners = _owners(tracker, run_id)
        last = max(owners, default=0)
        if last:
            _require_gone(tracker, run_id, name, last, owners[last], say)
        try:
            tracker.client.log_param(run_id, f"{OWNER}{last + 1}", me)
        except MlflowException:
            if _owners(tracker, run_id).get(last + 1, me) == me:
                raise
            continue  # somebody was faster
        # a server that was slow may have taken the other one's
        if _owners(tracker, run_id).get(last + 1) == me:
            return last + 1
    raise UserError(
        f"the tracking server took the claim of '{name}' {CLAIMS} times and has none of them. "
        "Check that MLFLOW_TRACKING_URI names an MLflow server."
    )


def _require_gone(
    tracker: Tracker, run_id: str, name: str, session: int, owner: str, say: Callable[[str], None]
) -> None:
    """Return when the owner has ended; raise a UserError when it lives."""
    process = owner.partition(" ")[2].partition(" ")[0]
    renewed = _renewed(tracker, run_id)
    if renewed == f"{session} {ENDED}" or has_ended(process):
        return
    if is_elsewhere(process):
        say(f"'{name}' may still run at {_shown(owner)}; looking for a sign of life for {EXPIRED_S:.0f} s")
        deadline = time.monotonic() + EXPIRED_S
        while time.monotonic() < deadline:
            time.sleep(1.0)
            if _renewed(tracker, run_id) == f"{session} {ENDED}":
                return
            if _renewed(tracker, run_id) != renewed or max(_owners(tracker, run_id)) > session:
                break
        else:
            return
    raise UserError(
        f"'{name}' is running on this tracking server, by {_shown(owner)}. "
        "Wait for it, or choose another --name."
    )


def _owners(tracker: Tracker, run_id: str) -> dict[int, str]:
    """Return the owners of the search by the number of their session."""
    params = tracker.client.get_run(run_id).data.params
    return {int(found[1]): value for key, value in params.items() if (found := _KEY.fullmatch(key))}


def _renewed(tracker: Tracker, run_id: str) -> str:
    return str(tracker.client.get_run(run_id).data.tags.get(RENEWED, ""))


def _shown(owner: str) -> str:
    user, _, rest = owner.partition(" ")
    host, _, pid = rest.partition(" ")[0].partition(":")
    return f"{user} (process {pid.partition(':')[0]} on {host})"
