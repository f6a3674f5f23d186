"""Follow a Ray job: its log, its result, its exit code, and the commands that come next."""

from __future__ import annotations

import asyncio
import shlex
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dmltune.cli.boundary import INTERRUPTED
from dmltune.cli.output import Output
from dmltune.cluster.driver import MARK
from dmltune.errors import UserError, parse_json, printable
from dmltune.store import without_password

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

PATIENCE_SECONDS = 60.0


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
        except OSError as error:
            raise UserError(f"the cluster went away while the job was submitted ({error})") from None


def follow(client: JobSubmissionClient, job_id: str, address: str, out: Output) -> int:
    """Copy the log until the job has ended and return its exit code; Ctrl-C does not stop the job."""
    shown = without_password(address)
    log = JobLog(sys.stderr if out.json else out.stream)
    try:
        in_background(lambda: asyncio.run(copy_log(client, job_id, log)))
        document = job_document(client.get_job_info(job_id), shown, log.result)
    except KeyboardInterrupt:
        to = f"{job_id} --address {shlex.quote(shown)}"
        print(
            f"\nthe job goes on. Its log:  dmltune jobs logs {to} -f"
            f"\nTo stop it:                dmltune jobs stop {to}",
            file=sys.stderr,
        )
        return INTERRUPTED
    return finish(document, out)


def finish(document: dict[str, Any], out: Output) -> int:
    """Show how a job has ended; return its exit code."""
    message = document.pop("message")
    if document["status"] != "SUCCEEDED":
        ended = f"job {document['job_id']}: {document['status'].lower()}. {reason_of(message)}".rstrip()
        print(printable(ended), file=sys.stderr)
    metadata = document.pop("metadata")
    out.document(document)
    if document["name"]:
        out.show("", *hints(document["job_id"], metadata, document["address"], result=document["result"]))
    return int(document["exit_code"])


def reason_of(message: str) -> str:
    """Return Ray's message without the end of the log, which people have seen."""
    return " ".join(message.partition(", last available logs")[0].split())


def job_document(info: Any, address: str, result: Any) -> dict[str, Any]:
    """Return what is known of a job, as JSON has it; `message` and `metadata` are for people."""
    metadata, status = info.metadata or {}, info.status.value
    code = info.driver_exit_code
    if code is None and info.status.is_terminal():
        code = {"SUCCEEDED": 0, "STOPPED": INTERRUPTED}.get(status, 1)
    return {
        "job_id": info.submission_id,
        "address": address,
        "status": status,
        "exit_code": code,
        "name": metadata.get("dmltune_search"),
        "store": metadata.get("dmltune_store"),
        "started": None if not info.start_time else info.start_time / 1000,
        "ended": None if not info.end_time else info.end_time / 1000,
        "result": result,
        "message": info.message or "",
        "metadata": metadata,
    }


def hints(
    job_id: str,
    metadata: Mapping[str, str],
    address: str,
    *,
    result: Mapping[str, Any] | None = None,
    running: bool = False,
) -> list[str]:
    """Return the commands that come next and that work here: the store may be out of reach."""
    to = f"--address {shlex.quote(address)}"
    if running:
        return [
            "its log, and its end:",
            f"  dmltune jobs logs {job_id} {to} -f",
            f"  dmltune jobs stop {job_id} {to}",
        ]
    name, store = metadata.get("dmltune_search", ""), metadata.get("dmltune_store", "")
    tracking, studies = metadata.get("dmltune_tracking"), metadata.get("dmltune_studies")
    if result is None or result.get("winner") is None or result.get("interrupted"):
        return ["it continues with", f"  {metadata.get('dmltune_command', '')}"]
    variables = (("MLFLOW_TRACKING_URI", tracking), ("DMLTUNE_OPTUNA_STORAGE", studies))
    before = "".join(f"{key}={shlex.quote(value)} " for key, value in variables if value)
    place = f"--store {shlex.quote(store)}"
    lines = []
    if "://" in store or Path(store).is_dir():
        lines = [f"  {before}dmltune ui {name} {place}"]
        lines += [
            f"  {before}dmltune {ask} {place}" for ask in (f"evaluate {name} --split test", f"check {name}")
        ]
    elif tracking and tracking.startswith("http"):
        lines = [f"  {before}dmltune ui {name}"]
    if lines:
        return ["next:", *lines]
    return [
        f"its models and runs are on the cluster, in {store}: dmltune reads them where that folder is seen"
    ]


@dataclass
class JobLog:
    """Takes a job's log in pieces: whole lines are shown, the marked result is kept."""

    stream: IO[str]
    result: Any = None
    _rest: str = field(default="", init=False)

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._show(line + "\n")
        if self._rest and not MARK.startswith(self._rest[: len(MARK)]):
            self._show(self._rest)
            self._rest = ""

    def close(self) -> None:
        if self._rest:
            self._show(self._rest)
            self._rest = ""

    def _show(self, line: str) -> None:
        if line.startswith(MARK):
            try:
                self.result = parse_json(line.removeprefix(MARK))
            except ValueError:
                return
        else:
            print(printable(line.replace("\t", "    ")), end="", file=self.stream, flush=True)


def result_in(log: str) -> Any:
    """Return the marked result of a whole log, or None."""
    for line in reversed(log.splitlines()):
        if line.startswith(MARK):
            try:
                return parse_json(line.removeprefix(MARK))
            except ValueError:
                return None
    return None


def without_result(log: str) -> str:
    return "".join(line for line in log.splitlines(keepends=True) if not line.startswith(MARK))


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


async def copy_log(client: JobSubmissionClient, job_id: str, log: JobLog) -> None:
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
                log.write(fresh)
        except (RuntimeError, OSError):
            failures_since = failures_since or time.monotonic()
        if await asyncio.to_thread(ended, client, job_id, failures_since):
            log.close()
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
