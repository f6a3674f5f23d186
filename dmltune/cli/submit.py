"""`dmltune submit`: the same search on a cluster, as a Ray job or as a RayJob of Kubernetes.

The space is resolved here: the cluster gets one flat file and the code of this machine.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.cli.output import Output, facts_table, say
from dmltune.cli.parser import Parser, add_format
from dmltune.cli.submission import Submission, submission, with_options
from dmltune.cluster.dashboard import connect, default_address, require_dashboard_address
from dmltune.errors import UserError
from dmltune.store import validated_name, without_password
from dmltune.worker_resources import described

if TYPE_CHECKING:
    from dmltune.cluster.dashboard import Cluster
    from dmltune.experiment import Job

SUMMARY = "run a job file's search on a Ray cluster, follow its log, return its exit code"
EXAMPLES = """\
  dmltune submit jobs/glyphs-ccp.yaml                            Ray on this machine
  dmltune submit jobs/cub-ccp.yaml --address http://head:8265 --store s3://bucket/runs
  dmltune submit jobs/cub-ccp.yaml --dry-run                     what would be submitted, and whether it fits
  dmltune submit jobs/cub-ccp.yaml --no-wait                     then: dmltune jobs logs cub-ccp -f
  dmltune submit jobs/kubernetes.yaml --kuberay -o job.yaml      a RayJob for kubectl apply
"""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "job", metavar="JOB", help="a YAML file with space, name, trials, time, resources, store, …"
    )
    add_address(parser)
    parser.add_argument("--name", type=validated_name, help="of the search (default: the job's)")
    parser.add_number("--trials", "number of trials in all (default: the job's)")
    parser.add_argument(
        "--store", metavar="STORE", help="s3://BUCKET/PATH, or a folder of the head that outlives the job"
    )
    parser.add_argument(
        "--tracking",
        metavar="URL",
        help="MLflow's server, as the cluster reaches it (default: the job's, else $MLFLOW_TRACKING_URI)",
    )
    parser.add_argument(
        "--studies",
        metavar="URL",
        help="Optuna's database, also as seen there (default: the job's, else $DMLTUNE_OPTUNA_STORAGE)",
    )
    parser.add_path("--data-root", "where the images lie on the cluster")
    parser.add_flag("--dry-run", "check everything, show what would be submitted, upload nothing")
    parser.add_flag("--no-wait", "return when the job is submitted")
    parser.add_flag("--kuberay", "write a RayJob for Kubernetes (KubeRay 1.7) instead of submitting")
    parser.add_path("-o", "with --kuberay: the file to write (default: stdout)", metavar="FILE")
    add_format(parser)


def add_address(parser: Parser) -> None:
    parser.add_argument(
        "--address",
        default=default_address(),
        metavar="http://HOST:8265",
        help="the cluster's dashboard (default: $RAY_API_SERVER_ADDRESS, else this machine's)",
    )


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.experiment import load_job

    job = with_options(load_job(args.job), args)
    if args.kuberay:
        from dmltune.cli.kuberay import render

        return render(submission(job, args.job, args, kubernetes=True), args, out)
    if args.o is not None:
        raise UserError("-o FILE goes with --kuberay, which writes a manifest.")
    require_dashboard_address(args.address)
    submitted = submission(job, args.job, args)
    if args.dry_run:
        return show_plan(submitted, out)
    return submit(submitted, args, out)


def submit(submitted: Submission, args: argparse.Namespace, out: Output) -> int:
    from dmltune.cli.job_log import follow, hints, start
    from dmltune.cluster.dashboard import cluster_of

    client = connect(args.address)
    if (cluster := cluster_of(client)) is not None:
        problem, notes = judge(submitted.job, cluster)
        for note in notes:
            say(note)
        if problem:
            raise UserError(problem)
    with tempfile.TemporaryDirectory(prefix="dmltune-job-") as folder:
        job_id = start(
            client,
            submission_id=f"{submitted.name}-{secrets.token_hex(4)}",
            entrypoint=submitted.entrypoint(),
            runtime_env=submitted.runtime_env(Path(folder)),
            metadata=submitted.metadata(),
        )
    shown = without_password(args.address)
    say(f"job {job_id} on {shown}; its runs go to {submitted.store}")
    if args.no_wait:
        out.document({"job_id": job_id, "address": shown, "status": "PENDING", "exit_code": None}
                     | {"name": submitted.name, "store": submitted.store, "result": None})  # fmt: skip
        out.show("", *hints(job_id, submitted.metadata(), shown, running=True))
        return 0
    return follow(client, job_id, args.address, out)


def judge(job: Job, cluster: Cluster) -> tuple[str, list[str]]:
    """Return why the job cannot run on this cluster (or nothing), and what is worth knowing."""
    from dmltune.cluster import fitting

    if problem := fitting.version_problem(cluster):
        return problem, []
    notes = [note] if (note := fitting.version_note(cluster)) else []
    if job.image is not None:
        notes.append("image is for --kuberay; a running cluster keeps its own")
    if not (lacking := fitting.shortage(job, cluster)):
        return "", notes
    if cluster.grows is False:
        return f"{lacking} {fitting.remedy(job)}, or add a node.", notes
    may = "its autoscaler may add nodes" if cluster.grows else "an autoscaler may add nodes, if it has one"
    return "", [*notes, f"{lacking} {may[0].upper()}{may[1:]}; until then the job waits."]


def show_plan(submitted: Submission, out: Output) -> int:
    """Show what would be submitted; a UserError when it does not fit the cluster."""
    from dmltune.cluster.dashboard import cluster_of
    from dmltune.data.files import amount

    cluster, problem, notes = None, "", []
    try:
        cluster = cluster_of(connect(submitted.address))
    except UserError as error:
        notes = [f"not checked against a cluster: {error}"]
    if cluster is not None:
        problem, notes = judge(submitted.job, cluster)
    with tempfile.TemporaryDirectory(prefix="dmltune-job-") as folder:
        uploads = submitted.uploads(Path(folder))
    document = plan_document(submitted, cluster, uploads) | {"problem": problem or None, "notes": notes}
    out.document(document)
    at_a_time = document["concurrent"]
    out.show(
        facts_table(
            ("job", f"{submitted.source} → {submitted.name} on {without_password(submitted.address)}"),
            ("command", document["command"]),
            *((f"  {name}", value) for name, value in document["environment"].items()),
            ("pip", ", ".join(submitted.job.pip) or "nothing"),
            ("uploads", ", ".join(f"{what} {amount(size)}" for what, size in uploads) or "nothing"),
            ("one worker", described(document["per_worker"])),
            (
                "trials",
                f"{'?' if at_a_time is None else at_a_time} at a time × {submitted.job.workers} workers",
            ),
            ("retries", f"{submitted.job.retries} of a driver that is lost"),
            ("store", submitted.store),
        )
    )
    for note in notes:
        say(note)
    if problem:
        raise UserError(problem)
    out.show("", "nothing was uploaded")
    return 0


def plan_document(
    submitted: Submission, cluster: Cluster | None, uploads: list[tuple[str, int]]
) -> dict[str, Any]:
    from dmltune.cluster.fitting import request_of, trials_at_a_time

    job = submitted.job
    request = job.resources.value().request(False) if cluster is None else request_of(job, cluster)
    return {
        "name": submitted.name,
        "space": submitted.space,
        "address": without_password(submitted.address),
        "command": submitted.entrypoint(),
        "environment": submitted.environment(),
        "pip": list(job.pip),
        "uploads": [{"what": what, "bytes": size} for what, size in uploads],
        "per_worker": request,
        "workers": job.workers,
        "concurrent": job.concurrent if cluster is None else trials_at_a_time(job, cluster),
        "retries": job.retries,
        "store": submitted.store,
        "cluster": None
        if cluster is None
        else {"ray": cluster.ray_version, "python": cluster.python_version}
        | {"nodes": [dict(node) for node in cluster.nodes], "grows": cluster.grows},
    }
