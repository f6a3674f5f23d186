"""Rules between several keys, on dotted values: they hold for a file and for the point of every trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dmltune.experiment.problems import Problem, show
from dmltune.experiment.schema import components

Values = Mapping[str, Any]


def validate_values(values: Values) -> None:
    """Raise the Problem of the first rule that is broken."""
    for rule in RULES:
        rule(values)


def _batch(values: Values) -> None:
    size, per_class = values["batch.size"], values["batch.samples_per_class"]
    paths = (("batch", "size"), ("batch", "samples_per_class"))
    if per_class and size % per_class:
        below, above = size // per_class * per_class, (size // per_class + 1) * per_class
        raise Problem(
            "batch.size must be a multiple of batch.samples_per_class; "
            f"got {size} and {per_class}. Use {f'{below} or ' if below else ''}{above}.",
            *paths,
        )
    if per_class and size == per_class:
        raise Problem(
            f"a batch needs two classes at least; batch.size and batch.samples_per_class are both {size}. "
            f"Use batch.size {2 * size}.",
            *paths,
        )


def _steps(values: Values) -> None:
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
            "optimizer.warmup_new_layers must be below max_steps, or the backbone is never trained; "
            f"got {warmup} and {steps}. Use the steps of one epoch.",
            ("optimizer", "warmup_new_layers"),
            ("max_steps",),
        )


def _objective(values: Values) -> None:
    from dmltune.data.splits import folds

    protocol, fold = values["objective.protocol"], values["fold"]
    if fold >= (parts := folds(protocol)):
        raise Problem(
            f"fold must be below the {parts} partitions of protocol {protocol}; got {fold}. "
            f"Use 0 to {parts - 1}.",
            ("fold",),
            ("objective", "protocol"),
        )
    metric, mode = values["objective.metric"], values["objective.mode"]
    if mode == "min" and metric != "covering_radius":
        raise Problem(
            f"objective.mode min would search for the worst {metric}. Use max.",
            ("objective", "mode"),
            ("objective", "metric"),
        )


def _optimizer(values: Values) -> None:
    name = values["optimizer.name"]
    for key, owners in (("betas", ("adam", "adamw")), ("momentum", ("sgd",))):
        if values.get(f"optimizer.{key}") is not None and name not in owners:
            raise Problem(
                f"optimizer.{key} is for {' and '.join(owners)}; the name is {show(name)}. Delete {key}.",
                ("optimizer", key),
                ("optimizer", "name"),
            )


def _references(values: Values) -> None:
    loss, references = values["loss.name"], values["references.name"]
    if references != "batch" and not getattr(components.find("loss", loss), "takes_references", True):
        raise Problem(
            f"loss {loss} compares with proxies of its own and takes no references {references}; "
            "use references: batch, or a pair loss such as contrastive.",
            ("references", "name"),
            ("loss", "name"),
        )


def _zero_shot(values: Values) -> None:
    weight, pooling = values["zero_shot.weight"], values["pooling.name"]
    if weight > 0 and not components.gives_attributes(components.find("pooling", pooling)):
        raise Problem(
            f"zero_shot.weight {show(weight)} needs a pooling with attributes; {pooling} has none; "
            "use pooling gsp (mu: 1 is average pooling), or zero_shot.weight 0.",
            ("zero_shot", "weight"),
            ("pooling", "name"),
        )


RULES: tuple[Callable[[Values], None], ...] = (
    _batch,
    _steps,
    _objective,
    _references,
    _zero_shot,
    _optimizer,
)
