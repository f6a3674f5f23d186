"""`dmltune submit --kuberay`: a job file as a RayJob for Kubernetes, written, validated and explained."""

from __future__ import annotations

import argparse
import io
import shlex
from typing import Any

from dmltune.cli.output import Output, say
from dmltune.cli.submission import QUIET, Submission, space_text
from dmltune.cluster import kuberay, manifest_rules
from dmltune.errors import UserError, UserErrors
from dmltune.worker_resources import described


def render(submitted: Submission, args: argparse.Namespace, out: Output) -> int:
    """Write the manifest to -o FILE or stdout, and say on stderr what it does and what it needs."""
    pods = kuberay.pods_of(submitted.job, submitted.store)
    documents = manifest(submitted, pods)
    if found := manifest_rules.problems(documents):
        raise UserErrors(found)
    text = to_yaml(documents)
    target = None if args.o is None or str(args.o) == "-" else str(args.o)
    if target is not None:
        try:
            args.o.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"-o must name a file that can be written; got {target} ({error.strerror})"
            ) from None
    out.document({"name": submitted.name, "file": target, "manifest": documents, "yaml": text})
    if target is None:
        out.text(text)
    for line in explanation(submitted, pods, target or "FILE"):
        say(line)
    return 0


def manifest(submitted: Submission, pods: kuberay.Pods) -> list[dict[str, Any]]:
    job = pods.job
    needs = job.resources.model_copy(update={"cpus": pods.cpus_per_worker})
    exact = job.model_copy(update={"concurrent": pods.concurrent, "resources": needs})
    named = Submission(exact, submitted.source, submitted.address, submitted.name, submitted.space,
                       submitted.experiment, submitted.store)  # fmt: skip
    file = None if submitted.file is None else f"{kuberay.SPACE_FOLDER}/{submitted.file}"
    addresses = {"MLFLOW_TRACKING_URI": job.tracking, "DMLTUNE_OPTUNA_STORAGE": job.studies}
    environment = QUIET | {name: value for name, value in addresses.items() if value is not None}
    environment |= job.runtime_env.get("env_vars", {})
    space = None
    if submitted.experiment is not None:
        space = (submitted.file_name, space_text(submitted.experiment.to_dict()))
    return kuberay.documents(
        pods, submitted.name, named.entrypoint("python", "auto", file), environment, space
    )


def to_yaml(documents: list[dict[str, Any]]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    def readable(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: readable(value) for key, value in node.items()}
        if isinstance(node, list):
            return [readable(value) for value in node]
        return LiteralScalarString(node) if isinstance(node, str) and "\n" in node else node

    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.representer.ignore_aliases = lambda value: True
    stream = io.StringIO()
    writer.dump_all([readable(document) for document in documents], stream)
    return stream.getvalue()


def explanation(submitted: Submission, pods: kuberay.Pods, file: str) -> list[str]:
    """Return what the manifest does, what must be there before, and the commands."""
    own, spec, job = kuberay.kubernetes_name(submitted.name), pods.kuberay, submitted.job
    inside = "" if spec.namespace is None else f" -n {spec.namespace}"
    gpus = f", {spec.gpus} GPUs" if spec.gpus else ""
    lines = [
        f"RayJob {own}: a head with {spec.head_cpus} CPUs and {spec.head_memory} that trains nothing, and "
        f"{spec.nodes_at_least} to {spec.nodes} worker pods with {spec.cpus} CPUs, {spec.memory}{gpus}",
        f"  {pods.concurrent} trials at a time × {job.workers} workers with {described(pods.request)} each",
        f"  {job.retries} retries, each a new cluster; '{submitted.name}' continues from {submitted.store}",
        f"  the cluster is removed {spec.keep} after the end",
        "it needs in the namespace:",
        f"  the image {pods.image} with dmltune and Ray (jobs/image/Dockerfile)",
    ]
    if spec.token_secret is not None:
        lines.append(f"  the Secret {spec.token_secret} with the key auth_token, Ray's token")
    if spec.secret is not None:
        lines.append(f"  the Secret {spec.secret}: its keys become environment variables (passwords, keys)")
    if spec.claim is not None:
        lines.append(f"  the PersistentVolumeClaim {spec.claim}, ReadWriteMany when pods share nodes' data")
    if job.tracking is None and "://" not in submitted.store:
        lines.append("  tracking: is not set: runs go to SQLite on the claim, which most network disks break")
    path = shlex.quote(file)
    return [
        *lines,
        "then:",
        f"  kubectl apply --dry-run=server -f {path}{inside}    # the operator's own schema",
        f"  kubectl apply -f {path}{inside}",
        f"  kubectl logs -f job/{own}{inside}",
    ]
