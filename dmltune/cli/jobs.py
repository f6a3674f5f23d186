"""`dmltune jobs`: the jobs of a Ray cluster: list, state and result of one, its log, and stop it in order."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dmltune.cli.boundary import FAILED
from dmltune.cli.job_log import finish, follow, hints, job_document, reason_of, result_in, without_result
from dmltune.cli.output import Output, facts_table, new_table, say
from dmltune.cli.parser import Parser, duration
from dmltune.cli.submission import STOP_WAIT_S
from dmltune.cli.submit import add_address
from dmltune.cluster.dashboard import connect, require_dashboard_address
from dmltune.errors import UserError, nearest, printable, readable
from dmltune.store import without_password

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

SUMMARY = "list the jobs of a cluster; state, log and end of one"
EXAMPLES = """\
  dmltune jobs list --address http://head:8265
  dmltune jobs status cub-ccp                       a job's id, or its search: the latest job
  dmltune jobs logs cub-ccp -f                      follow; Ctrl-C leaves the job running
  dmltune jobs stop cub-ccp                         in order: the search can be continued
"""
ACTIONS = ("list", "status", "logs", "stop")
FORMATS = ("table", "json")


class FormatOrFollow(argparse.Action):
    """`-f json` is the format, as everywhere; `-f` alone follows, as of `tail`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option: str | None = None,
    ) -> None:
        if isinstance(values, str) and values in FORMATS:
            namespace.format = values
            return
        namespace.follow = True
        if isinstance(values, str):
            namespace.after_follow = values  # `logs -f ID`


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", metavar="|".join(ACTIONS), choices=ACTIONS, help="what to do")
    parser.add_argument("job", metavar="JOB", nargs="?", help="a job's id, or the name of its search")
    add_address(parser)
    parser.add_flag("--all", "with list: also jobs that are not dmltune's")
    parser.add_argument(
        "--wait",
        type=duration,
        default=STOP_WAIT_S + 30.0,
        metavar="150s",
        help="with stop: how long to wait for its end (default: 150s)",
    )
    parser.add_argument("--follow", action="store_true", help="with logs: until the job ends (also: -f)")
    parser.add_argument(
        "-f",
        "--format",
        dest="format",
        action=FormatOrFollow,
        nargs="?",
        default="table",
        metavar="table|json",
        help="one JSON document on stdout; without a value, of logs: follow",
    )
    parser.set_defaults(after_follow=None)


def run(args: argparse.Namespace, out: Output) -> int:
    wanted = args.job or args.after_follow
    if args.follow and args.action != "logs":
        raise UserError(f"-f needs table or json; only logs follows. Use dmltune jobs {args.action} -f json")
    if args.action == "list" and wanted is not None:
        raise UserError(f"jobs list takes no job; use dmltune jobs status {wanted}")
    if args.action != "list" and wanted is None:
        raise UserError(
            f"jobs {args.action} needs a job's id or the name of its search; see dmltune jobs list"
        )
    require_dashboard_address(args.address)
    client, address = connect(args.address), without_password(args.address)
    jobs = all_jobs(client)
    if args.action == "list":
        return show_list(jobs, address, args.all, out)
    info = find(jobs, wanted, address)
    if args.action == "status":
        return show_status(client, info, address, out)
    if args.action == "stop":
        return stop(client, info, args, out)
    if args.follow and not info.status.is_terminal():
        return follow(client, info.submission_id, args.address, out)
    return show_log(client, info, address, args.follow, out)


def all_jobs(client: JobSubmissionClient) -> list[Any]:
    """Return the submitted jobs, the latest first."""
    try:
        jobs = [job for job in client.list_jobs() if job.submission_id]
    except (RuntimeError, OSError) as error:
        raise UserError(f"the cluster did not list its jobs: {str(error).splitlines()[0][:200]}") from None
    return sorted(jobs, key=lambda job: -(job.start_time or 0))


def find(jobs: list[Any], wanted: str, address: str) -> Any:
    """Return the job with this id, else the latest one of a search with this name."""
    for job in jobs:
        if job.submission_id == wanted:
            return job
    for job in jobs:
        if (job.metadata or {}).get("dmltune_search") == wanted:
            return job
    known = {job.submission_id for job in jobs} | {(job.metadata or {}).get("dmltune_search") for job in jobs}
    hint = nearest(wanted, sorted(name for name in known if name))
    raise UserError(f"no job {readable(wanted)} on {address}{hint or '; see dmltune jobs list'}")


def show_list(jobs: list[Any], address: str, everything: bool, out: Output) -> int:
    ours = [job for job in jobs if everything or (job.metadata or {}).get("dmltune_search")]
    documents = [plain_document(job_document(job, address, None)) for job in ours]
    for document in documents:
        del document["result"]  # it is in the log of each: jobs status
    out.document(documents)
    if not ours:
        out.show(f"no job of dmltune on {address}")
        return 0
    table = new_table("job")
    table.add_column("search", no_wrap=True)
    table.add_column("state")
    table.add_column("started", no_wrap=True)
    table.add_column("took", justify="right")
    for document in documents:
        started = document["started"]
        end = document["ended"] or time.time()
        table.add_row(
            document["job_id"],
            document["name"] or "",
            document["status"].lower(),
            "" if started is None else time.strftime("%m-%d %H:%M", time.localtime(started)),
            "" if started is None else clock(end - started),
        )
    out.show(table)
    return 0


def clock(seconds: float) -> str:
    from dmltune.report.formatting import clock as formatted

    return formatted(seconds)


def plain_document(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("message", "metadata")}


def log_of(client: JobSubmissionClient, info: Any) -> str:
    """Return the log; a job that has not begun has none."""
    try:
        return client.get_job_logs(info.submission_id)
    except (RuntimeError, OSError):
        return ""


def show_status(client: JobSubmissionClient, info: Any, address: str, out: Output) -> int:
    """Show the state of a job, and its result."""
    result = result_in(log_of(client, info)) if info.status.is_terminal() else None
    document = job_document(info, address, result)
    out.document(plain_document(document))
    winner = (result or {}).get("winner") or {}
    out.show(
        facts_table(
            ("job", document["job_id"]),
            ("search", document["name"] or "not one of dmltune's"),
            ("state", f"{document['status'].lower()}. {reason_of(document['message'])}"),
            ("store", document["store"] or ""),
            ("command", info.entrypoint),
            *([("best", f"trial {winner['number']}: {score(winner, result)}")] if winner else []),
        )
    )
    running = not info.status.is_terminal()
    if document["name"]:
        out.show(
            "", *hints(document["job_id"], document["metadata"], address, result=result, running=running)
        )
    return 0


def score(winner: dict[str, Any], result: Any) -> str:
    from dmltune.report import formatting

    lead = ((result.get("verdict") or {}).get("lead") or {}).get("mean")
    over = "" if lead is None else f", {formatting.percent(lead, signed=True)} against the baseline"
    metric = formatting.metric_name(result["metric"])
    return f"{metric} {formatting.percent(winner.get('best'))} % on the validation classes{over}"


def show_log(client: JobSubmissionClient, info: Any, address: str, to_the_end: bool, out: Output) -> int:
    log = log_of(client, info)
    document = job_document(info, address, result_in(log))
    if to_the_end:
        print(printable(without_result(log)), end="", file=sys.stderr if out.json else out.stream, flush=True)
        return finish(document, out)
    out.document(plain_document(document) | {"log": without_result(log)})
    out.text(without_result(log))
    return 0


def stop(client: JobSubmissionClient, info: Any, args: argparse.Namespace, out: Output) -> int:
    """Ask the driver to stop, wait for its end, and say how the search continues."""
    job_id, address = info.submission_id, without_password(args.address)
    if not info.status.is_terminal():
        try:
            client.stop_job(job_id)
        except (RuntimeError, OSError) as error:
            raise UserError(
                f"job {job_id} could not be stopped: {str(error).splitlines()[0][:200]}"
            ) from None
        say(f"job {job_id} was asked to stop; waiting for its end")
        info = wait(client, info, args.wait)
    ended = info.status.is_terminal()
    result = result_in(log_of(client, info)) if ended else None
    document = job_document(info, address, result)
    out.document(plain_document(document) | {"stopped": ended})
    if not ended:
        out.show(f"job {job_id} still ends. See it with: dmltune jobs status {job_id} --address {address}")
        return FAILED
    state = info.status.value.lower()
    in_order = "; finished trials are kept, and the search can be continued"
    interrupted = (result or {}).get("interrupted")
    out.show(f"job {job_id} has ended: {state}{in_order if interrupted else ''}")
    if document["name"]:
        out.show("", *hints(job_id, document["metadata"], address, result=result))
    return 0


def wait(client: JobSubmissionClient, info: Any, seconds: float) -> Any:
    """Return the job's state at its end, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            info = client.get_job_info(info.submission_id)
        except (RuntimeError, OSError):
            pass  # asked again
        else:
            if info.status.is_terminal():
                break
        time.sleep(0.5)
    return info
