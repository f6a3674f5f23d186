"""Rules between several keys, on dotted values: they hold for a file and for every trial's point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmltune.experiment.sections import PARTITIONS
from dmltune.experiment.wording import Problem, show

SEARCH_KEYS = ("search", "require", "reference_point", "baseline")


def check_values(values: Mapping[str, Any]) -> None:
    """A Problem for the first rule that is broken."""
    size, per_class = values["batch.size"], values["batch.samples_per_class"]
    if per_class and size % per_class:
        below, above = size // per_class * per_class, (size // per_class + 1) * per_class
        use = f"{below} or {above}" if below else f"{above}"
        raise Problem(
            "batch.size must be a multiple of batch.samples_per_class; "
            f"got {size} and {per_class}. Use {use}.",
            ("batch", "size"),
            ("batch", "samples_per_class"),
        )
    if per_class and size == per_class:
        raise Problem(
            f"a batch needs two classes at least; batch.size and batch.samples_per_class are both {size}. "
            f"Use batch.size {2 * size}.",
            ("batch", "size"),
            ("batch", "samples_per_class"),
        )
    every, steps = values["validate_every"], values["max_steps"]
    if every > steps:
        raise Problem(
            f"validate_every must not exceed max_steps; got {every} and {steps}. Use validate_every {steps}.",
            ("validate_every",),
            ("max_steps",),
        )
    protocol, fold = values["objective.protocol"], values["fold"]
    if fold >= PARTITIONS[protocol]:
        raise Problem(
            f"fold must be below the {PARTITIONS[protocol]} partitions of protocol {protocol}; got {fold}. "
            f"Use 0 to {PARTITIONS[protocol] - 1}.",
            ("fold",),
            ("objective", "protocol"),
        )
    metric, mode = values["objective.metric"], values["objective.mode"]
    if mode == "min" and metric != "covering_radius":
        raise Problem(
            f"objective.mode min would look for the worst {metric}. Use max.",
            ("objective", "mode"),
            ("objective", "metric"),
        )
    name = values["optimizer.name"]
    for key, owners in (("betas", ("adam", "adamw")), ("momentum", ("sgd",))):
        if values.get(f"optimizer.{key}") is not None and name not in owners:
            raise Problem(
                f"optimizer.{key} is for {' and '.join(owners)}; the name is {show(name)}. Delete {key}.",
                ("optimizer", key),
                ("optimizer", "name"),
            )
