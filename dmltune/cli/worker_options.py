"""The options that say what one worker needs: `search`, `check`, `train`, `resume` and jobs share them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from dmltune.worker_resources import WorkerResources, custom_resource, memory_bytes

AUTO = "auto"


def add_worker_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cpus-per-worker",
        type=amount,
        metavar="N",
        help="CPUs of one process, also its threads (default: 1, or a share beside a GPU)",
    )
    parser.add_argument(
        "--gpus-per-worker",
        type=amount,
        metavar="N",
        help="GPUs of one process; 0.5 lets two trials share one (default: 1 where there are any)",
    )
    parser.add_argument(
        "--memory-per-worker", type=memory, metavar="8GiB", help="memory that Ray sets aside for one process"
    )
    parser.add_argument(
        "--resource-per-worker",
        action="append",
        default=[],
        type=custom,
        metavar="NAME=N",
        help="a custom resource of the nodes that one process needs; may be repeated",
    )


def worker_resources(args: argparse.Namespace) -> WorkerResources:
    """Return what one worker needs; a command without these options has the defaults."""
    if not hasattr(args, "resource_per_worker"):
        return WorkerResources()
    custom = dict(custom_resource(text) for text in args.resource_per_worker)
    memory = None if args.memory_per_worker is None else memory_bytes(args.memory_per_worker)
    return WorkerResources(args.cpus_per_worker, args.gpus_per_worker, memory, custom)


def concurrency(number: Callable[[str], int]) -> Callable[[str], Any]:
    """Return a converter for a number of trials, or `auto`: as many as the cluster has room for."""

    def convert(text: str) -> Any:
        return None if text == AUTO else number(text)

    return convert


def amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1000000; got {text}")
    return int(number) if number.is_integer() else number


def memory(text: str) -> str:
    """Return the text as it was typed, so that a command that is shown has it too."""
    return _checked(memory_bytes, text)


def custom(text: str) -> str:
    return _checked(custom_resource, text)


def _checked(convert: Callable[[str], object], text: str) -> str:
    try:
        convert(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; got {text}") from None
    return text
