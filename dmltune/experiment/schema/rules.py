"""Rules between several keys, on dotted values: they hold for a file and for every trial's point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dmltune.experiment.problems import Path, Problem, show
from dmltune.experiment.schema import components

SEARCH_KEYS = ("search", "require", "reference_point", "baseline", "presets")


def check_values(values: Mapping[str, Any]) -> None:
    """A Problem for the first rule that is broken."""
    from dmltune.data.splits import folds

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
    warmup = values["optimizer.warmup_new_layers"]
    if warmup >= steps:
        raise Problem(
            f"optimizer.warmup_new_layers must be below max_steps, or the backbone never learns; "
            f"got {warmup} and {steps}. Use the steps of one epoch.",
            ("optimizer", "warmup_new_layers"),
            ("max_steps",),
        )
    protocol, fold = values["objective.protocol"], values["fold"]
    if fold >= (parts := folds(protocol)):
        raise Problem(
            f"fold must be below the {parts} partitions of protocol {protocol}; got {fold}. "
            f"Use 0 to {parts - 1}.",
            ("fold",),
            ("objective", "protocol"),
        )
    for paths, needed, remedy in _missing_parts(values):
        raise Problem(f"{needed}; {remedy}", *paths)
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


def _missing_parts(values: Mapping[str, Any]) -> Iterator[tuple[tuple[Path, ...], str, str]]:
    """Components that need another one of a certain kind: (keys, what is wrong, remedy)."""
    loss, references = values["loss.name"], values["references.name"]
    if references != "batch" and not getattr(components.find("loss", loss), "takes_references", True):
        yield (
            (("references", "name"), ("loss", "name")),
            f"loss {loss} compares with proxies of its own and takes no references {references}",
            "use references: batch, or a pair loss such as contrastive.",
        )
    pooling = components.find("pooling", values["pooling.name"])
    if values["zero_shot.weight"] > 0 and not components.gives_attributes(pooling):
        yield (
            (("zero_shot", "weight"), ("pooling", "name")),
            f"zero_shot.weight {show(values['zero_shot.weight'])} needs a pooling with attributes; "
            f"{values['pooling.name']} has none",
            "use pooling gsp (mu: 1 is average pooling), or zero_shot.weight 0.",
        )
