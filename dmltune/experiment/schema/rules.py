"""Rules between several keys, on dotted values: they hold for a file and for the point of every trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from dmltune.experiment.problems import Problem, show
from dmltune.experiment.schema import components

Values = Mapping[str, Any]
Broken = Iterator[tuple[str, str, str]]  # the message, and the dotted keys that take part


def validate_values(values: Values) -> None:
    """Raise the Problem of the first rule that is broken."""
    for message, *keys in chain(_batch(values), _steps(values), _choices(values), _components(values)):
        raise Problem(message, *(tuple(key.split(".")) for key in keys))


def _batch(values: Values) -> Broken:
    keys = "batch.size", "batch.samples_per_class"
    size, per_class = (values[key] for key in keys)
    if per_class == "all":
        return
    if per_class and size % per_class:
        below, above = size // per_class * per_class, (size // per_class + 1) * per_class
        rule = f"batch.size must be a multiple of batch.samples_per_class; got {size} and {per_class}"
        yield f"{rule}. Use {f'{below} or ' if below else ''}{above}.", *keys
    if per_class and size == per_class:
        rule = "a batch needs two classes at least; batch.size and batch.samples_per_class are both"
        yield f"{rule} {size}. Use batch.size {2 * size}.", *keys


def _steps(values: Values) -> Broken:
    steps, every = values["max_steps"], values["validate_every"]
    warmup = values["optimizer.warmup_new_layers"]
    if every > steps:
        rule = f"validate_every must not exceed max_steps; got {every} and {steps}"
        yield f"{rule}. Use validate_every {steps}.", "validate_every", "max_steps"
    if warmup >= steps:
        rule = "optimizer.warmup_new_layers must be below max_steps, or the backbone is never trained"
        remedy = "Use the steps of one epoch."
        yield f"{rule}; got {warmup} and {steps}. {remedy}", "optimizer.warmup_new_layers", "max_steps"


def _choices(values: Values) -> Broken:
    from dmltune.data.splits import folds

    protocol, fold = values["objective.protocol"], values["fold"]
    if fold >= (parts := folds(protocol)):
        rule = f"fold must be below the {parts} partitions of protocol {protocol}; got {fold}"
        yield f"{rule}. Use 0 to {parts - 1}.", "fold", "objective.protocol"
    elif fold + (wanted := values["objective.folds"]) > parts:
        rule = f"objective.folds must be at most {parts - fold}: protocol {protocol} has {parts} partitions"
        yield f"{rule}, and fold {fold} is the first; got {wanted}.", "objective.folds", "fold"
    metric, mode = values["objective.metric"], values["objective.mode"]
    if mode == "min" and metric != "covering_radius":
        rule = f"objective.mode min would search for the worst {metric}"
        yield f"{rule}. Use max.", "objective.mode", "objective.metric"
    name = values["optimizer.name"]
    for key, owners in (("betas", ("adam", "adamw")), ("momentum", ("sgd",))):
        if values.get(f"optimizer.{key}") is not None and name not in owners:
            rule = f"optimizer.{key} is for {' and '.join(owners)}; the name is {show(name)}"
            yield f"{rule}. Delete {key}.", f"optimizer.{key}", "optimizer.name"


def _components(values: Values) -> Broken:
    from dmltune.core.poolings import Pooling

    loss, references = values["loss.name"], values["references.name"]
    if references != "batch" and not getattr(components.find("loss", loss), "takes_references", True):
        rule = f"loss {loss} compares with proxies of its own and takes no references {references}"
        remedy = "use references: batch, or a pair loss such as contrastive."
        yield f"{rule}; {remedy}", "references.name", "loss.name"
    weight, pooling = values["zero_shot.weight"], values["pooling.name"]
    attributes = getattr(components.find("pooling", pooling), "with_attributes", None)
    if weight > 0 and attributes is Pooling.with_attributes:  # the method is not overridden
        rule = f"zero_shot.weight {show(weight)} needs a pooling with attributes; {pooling} has none"
        remedy = "use pooling gsp (mu: 1 is average pooling), or zero_shot.weight 0."
        yield f"{rule}; {remedy}", "zero_shot.weight", "pooling.name"
