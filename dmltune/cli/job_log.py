"""Follow a Ray job: its log, its exit code, and the commands that come next."""

from __future__ import annotations

import asyncio
import http.client
import os
import shlex
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dmltune.cli.boundary import INTERRUPTED
from dmltune.cli.output import Output
from dmltune.errors import UserError, printable
from dmltune.store import without_password

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

PATIENCE_SECONDS = 60.0


def connect(address: str) -> JobSubmissionClient:
    """Return the client of the cluster at `address`; a UserError when none answers."""
    shown = without_password(address)
    silent = (
        f"no Ray cluster answers at {shown}. Start one with "
        "`ray start --head --dashboard-host=127.0.0.1`, or change --address."
    )
    try:
        if wants_token(address):
            # Ray reads this when it is imported, and finds the token itself.
            os.environ.setdefault("RAY_AUTH_MODE", "token")
    except urllib.error.HTTPError as error:
        raise UserError(
            f"the dashboard at {shown} answers with error {error.code}. Look at its log, then try again."
        ) from None
    except (OSError, http.client.HTTPException):
        raise UserError(silent) from None
    import logging

    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    logging.disable(logging.INFO)  # Ray's modules set their own levels and log every package they upload
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise UserError(
            f"the cluster at {shown} wants a token: "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the file that holds it."
        ) from None
    except (OSError, RuntimeError, ValueError):  # OSError: ConnectionError, and errors of requests
        raise UserError(silent) from None


def start(client: JobSubmissionClient, **job: Any) -> str:
    """Submit the job and return its id. A head that has just started gets a minute to find its agent."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return str(client.submit_job(**job))
        except RuntimeError as error:
            if "agent" not in str(error) or time.monotonic() > deadline:
                why = " ".join(str(error).split())[:300]
                raise UserError(f"the cluster refused the job: {why}") from None
            time.sleep(1.0)


def wants_token(address: str) -> bool:
    """Return whether the dashboard wants a token. OSError when none answers, HTTPError when it fails."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/api/version", timeout=10):
            return False
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise
        return error.code in (401, 403)


def follow(client: JobSubmissionClient, job_id: str, address: str, store: str, name: str, out: Output) -> int:
    """Copy the log until the job has ended and return its exit code; Ctrl-C does not stop the job."""
    log, shown = sys.stderr if out.json else out.stream, without_password(address)
    print(f"job {job_id} on {shown}; its runs go to {store}", file=sys.stderr, flush=True)
    try:
        in_background(lambda: asyncio.run(copy_log(client, job_id, log)))
        info = client.get_job_info(job_id)
    except KeyboardInterrupt:
        print(
            f"\nthe job goes on. Its log:  ray job logs {job_id} --address {shown} --follow"
            f"\nTo stop it:                ray job stop {job_id} --address {shown}",
            file=sys.stderr,
        )
        return INTERRUPTED
    succeeded = info.status.value == "SUCCEEDED"
    code = info.driver_exit_code if info.driver_exit_code is not None else (0 if succeeded else 1)
    if not succeeded:
        message = printable(f"job {job_id}: {info.status.value.lower()}. {info.message or ''}".rstrip())
        print(message, file=sys.stderr)
    out.document(
        {"job_id": job_id, "address": shown, "status": info.status.value, "exit_code": code}
        | {"name": name, "store": store}
    )
    place = f"--store {shlex.quote(store)}"
    out.show("", "next, where the store can be read:")
    out.show(f"  dmltune ui {place}", f"  dmltune evaluate {name} --split test {place}")
    return code


def in_background(work: Callable[[], None]) -> None:
    """Run `work` in a thread: the main one stays free for Ctrl-C."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if errors:
        raise errors[0]


async def copy_log(client: JobSubmissionClient, job_id: str, log: object) -> None:
    """Copy the log. After a broken connection it starts over, and the part that was shown is skipped."""
    shown, failures_since = 0, None
    while True:
        position = 0
        try:
            async for text in client.tail_job_logs(job_id):
                fresh = text[max(0, shown - position) :]
                position += len(text)
                shown = max(shown, position)
                failures_since = None
                print(fresh, end="", file=log, flush=True)  # type: ignore[call-overload]
        except (RuntimeError, OSError):
            failures_since = failures_since or time.monotonic()
        if await asyncio.to_thread(ended, client, job_id, failures_since):
            return
        await asyncio.sleep(1.0)


def ended(client: JobSubmissionClient, job_id: str, failures_since: float | None) -> bool:
    """Return whether the job is over; a cluster that is silent for a minute is a UserError."""
    try:
        return client.get_job_status(job_id).is_terminal()
    except (RuntimeError, OSError) as error:
        if failures_since is not None and time.monotonic() - failures_since > PATIENCE_SECONDS:
            why = str(error).splitlines()[0][:200]
            raise UserError(f"the cluster does not answer any more ({why}); the job may go on") from None
        return False
