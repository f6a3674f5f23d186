"""A Ray job's log, to its end: what it prints, its exit code, and what can be done next."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output
from dmltune.errors import UserError

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

PATIENCE_SECONDS = 60.0
INTERRUPTED = 130


def connect(address: str) -> JobSubmissionClient:
    """The client, or one line that says why there is none."""
    nobody = (
        f"no Ray cluster answers at {address}. Start one with "
        "`ray start --head --dashboard-host=127.0.0.1`, or say --address."
    )
    try:
        if wants_token(address):
            # Ray reads this when it is imported; the token itself is Ray's to find.
            os.environ.setdefault("RAY_AUTH_MODE", "token")
    except OSError:
        raise UserError(nobody) from None
    import logging

    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    logging.disable(logging.INFO)  # Ray's modules set their own levels and tell of every package they upload
    try:
        return JobSubmissionClient(address)
    except AuthenticationError:
        raise UserError(
            f"the cluster at {address} wants a token: "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the file that holds it."
        ) from None
    except (ConnectionError, RuntimeError):
        raise UserError(nobody) from None


def start(client: JobSubmissionClient, **job: Any) -> str:
    """The id of the new job. A head that has just been started is given a minute to find its agent."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return str(client.submit_job(**job))
        except RuntimeError as error:
            if "agent" not in str(error) or time.monotonic() > deadline:
                why = " ".join(str(error).split())[:300]
                raise UserError(f"the cluster does not take the job: {why}") from None
            time.sleep(1.0)


def wants_token(address: str) -> bool:
    """Whether the dashboard refuses who brings none. OSError when nobody answers."""
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/api/version", timeout=10):
            return False
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)


def follow(client: JobSubmissionClient, job_id: str, address: str, store: str, name: str, out: Output) -> int:
    """Copies the log until the job has ended and returns its exit code; Ctrl-C leaves the job alone."""
    log = sys.stderr if out.json else sys.stdout
    print(f"job {job_id} on {address}; its runs go to {store}", file=sys.stderr, flush=True)
    try:
        in_background(lambda: asyncio.run(copy_log(client, job_id, log)))
        info = client.get_job_info(job_id)
    except KeyboardInterrupt:
        print(
            f"\nthe job goes on. Its log:  ray job logs {job_id} --address {address} --follow"
            f"\nTo stop it:                ray job stop {job_id} --address {address}",
            file=sys.stderr,
        )
        return INTERRUPTED
    succeeded = info.status.value == "SUCCEEDED"
    code = info.driver_exit_code if info.driver_exit_code is not None else (0 if succeeded else 1)
    if not succeeded:
        print(f"job {job_id}: {info.status.value.lower()}. {info.message or ''}".rstrip(), file=sys.stderr)
    out.document(
        {"job_id": job_id, "address": address, "status": info.status.value, "exit_code": code}
        | {"name": name, "store": store}
    )
    out.show("", "next, where the store can be read:")
    out.show(f"  dmltune ui --store {store}", f"  dmltune evaluate {name} --split test --store {store}")
    return code


def in_background(work: Callable[[], None]) -> None:
    """`work` in a thread of its own: Ctrl-C always reaches the main one, whatever the client awaits."""
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
    """A connection that breaks is made again; the log then starts over and what was shown is skipped."""
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
    """Whether the job is over; gives up on a cluster that has been silent for a minute."""
    try:
        return client.get_job_status(job_id).is_terminal()
    except (RuntimeError, OSError) as error:
        if failures_since is not None and time.monotonic() - failures_since > PATIENCE_SECONDS:
            why = str(error).splitlines()[0][:200]
            raise UserError(f"the cluster does not answer any more ({why}); the job may go on") from None
        return False
