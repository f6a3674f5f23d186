"""What one worker asks Ray for, and how many such workers nodes have room for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dmltune.errors import UserError, readable

_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(?:([kKMGTP])(i)?)?B?")
_POWER = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_RESERVED = ("CPU", "GPU", "memory", "object_store_memory")
_TINY = 1e-6  # 0.3 / 0.1 is a little less than 3


@dataclass(frozen=True)
class WorkerResources:
    """CPUs, GPUs (fractions share one), bytes of memory and custom resources of one worker process.

    `cpus` and `gpus` of None: one GPU on a machine or cluster that has GPUs, else one CPU.
    """

    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for option, value in (("--cpus-per-worker", self.cpus), ("--gpus-per-worker", self.gpus)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise UserError(f"{option} must be a number of at least 0; got {value}")
        if self.gpus is not None and self.gpus > 1 and self.gpus != int(self.gpus):
            raise UserError(f"--gpus-per-worker above 1 must be a whole number; got {self.gpus:g}")
        if self.memory is not None and self.memory < 1:
            raise UserError(f"--memory-per-worker must be above 0; got {self.memory}")
        for name, amount in self.custom.items():
            if name in _RESERVED or not name.strip() or not (math.isfinite(amount) and amount > 0):
                raise UserError(
                    "a custom resource must have a name of its own and an amount above 0; "
                    f"got {readable(f'{name}={amount:g}')}"
                )

    @property
    def default(self) -> bool:
        return self == ANY

    def request(self, cluster_has_gpus: bool) -> dict[str, float]:
        """Return the request in Ray's names."""
        gpus = self.gpus if self.gpus is not None else float(cluster_has_gpus)
        cpus = self.cpus if self.cpus is not None else float(gpus == 0)
        wanted = {"CPU": cpus, "GPU": gpus, "memory": float(self.memory or 0)} | dict(self.custom)
        return {name: float(amount) for name, amount in wanted.items() if amount > 0} or {"CPU": 1.0}

    def to_dict(self) -> dict[str, object]:
        return {"cpus": self.cpus, "gpus": self.gpus, "memory": self.memory, "custom": dict(self.custom)}


ANY = WorkerResources()  # one GPU where there are any, else one CPU


def room(nodes: Iterable[Mapping[str, float]], request: Mapping[str, float]) -> int:
    """Return how many workers with this request fit on the nodes. A worker never spans two nodes."""
    return sum(
        min(math.floor(node.get(name, 0.0) / amount + _TINY) for name, amount in request.items())
        for node in nodes
    )


def described(request: Mapping[str, float]) -> str:
    """Return `4 CPUs, 0.5 GPUs, 8 GiB memory, 1 A100`."""
    return ", ".join(amount_of(name, amount) for name, amount in request.items())


def amount_of(name: str, amount: float) -> str:
    if name == "memory":
        return f"{readable_bytes(amount)} memory"
    unit = {"CPU": "CPU", "GPU": "GPU"}.get(name)
    return f"{amount:g} {name if unit is None else unit + ('' if amount == 1 else 's')}"


def readable_bytes(amount: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if amount >= size:
            return f"{math.floor(amount / size * 10) / 10:g} {unit}"
    return f"{amount:g} B"


def memory_bytes(text: str) -> int:
    """Return the bytes of `8GiB`, `8Gi`, `512MiB`, `16GB` (powers of 1000) or a number of bytes."""
    found = _MEMORY.fullmatch(text.strip()) if len(text) < 40 else None
    if found is None:
        raise ValueError("write an amount such as 8GiB, 512MiB or 16GB")
    base = 1024 if found[3] else 1000
    amount = int(float(found[1]) * base ** (_POWER[found[2]] if found[2] else 0))
    if not 1 <= amount <= 2**60:
        raise ValueError("the amount must be above 0 and at most 1 EiB")
    return amount


def custom_resource(text: str) -> tuple[str, float]:
    """Return name and amount of `licence=1`."""
    name, equals, amount = text.rpartition("=")
    try:
        if equals and name.strip() and math.isfinite(float(amount)) and float(amount) > 0:
            return name.strip(), float(amount)
    except ValueError:
        pass
    raise ValueError("write NAME=AMOUNT, such as licence=1 or accelerator_type:A100=0.001")
