"""The typed sections of an experiment; `components` validates the parameters of named components."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

LONGEST_PATH, LONGEST_NAME = 4095, 255  # bytes, of Linux' file systems
MAX_MILESTONES = 1000


def _none_is_null(value: Any) -> Any:
    return None if value == "none" else value


def _name_or_null(value: Any) -> Any:
    """Accept `5` as a name: that of a child of torchvision's sequential models."""
    return str(value) if type(value) is int else _none_is_null(value)


def _samples_per_class(value: Any) -> Any:
    """Accept a count, `none` as 0, and `all`: one message for what a union of types would report twice."""
    value = 0 if value in (None, "none") else value
    if value == "all" or (type(value) is int and value >= 0):
        return value
    raise ValueError("write a whole number of at least 0, or all")


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("each cost is written once")
    return values


def _path(path: str) -> str:
    encoded = os.fsencode(path)
    if len(encoded) > LONGEST_PATH or max(map(len, encoded.split(b"/"))) > LONGEST_NAME:
        raise ValueError(f"a path has at most {LONGEST_PATH} bytes and {LONGEST_NAME} in each name")
    return path


def _absolute(path: str) -> str:
    """Make a path absolute for jobs and resumed searches in other folders; links are not resolved."""
    return str(Path(os.path.expanduser(path)).absolute())


Beta = Annotated[float, Field(ge=0, lt=1)]
Cost = Literal["embedding_size", "parameters", "ms_per_image"]  # parameters in millions
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(min_length=1)]
FilePath = Annotated[Name, AfterValidator(_path)]


class Section(BaseModel):
    """Frozen, strict about types (no text or boolean for a number), and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class DataSettings(Section):
    """The data set `name`; `path` is the folder of data set own.

    `size`: side of the square images in pixels. `classes`: use only so many classes of each half. `missing`:
    what a listed image that is missing or unreadable does, `error` or `skip`. `test_list`: which test list of
    vehicleid is the test half (none: the large one).
    """

    name: Name
    path: Annotated[FilePath, AfterValidator(_absolute)] | None = None
    classes: Count | None = None
    size: int = Field(default=32, ge=8, le=1024)
    augment: str = "none"
    margin: Annotated[float, Field(ge=1, le=4)] | None = None
    views: Annotated[int, Field(ge=1, le=1000)] | None = None
    maps: Literal["float16", "bfloat16", "float32"] = "float16"
    missing: Literal["error", "skip"] = "error"
    test_list: Literal["small", "medium", "large"] | None = None


class BackboneSettings(Section):
    """`weights`: none, packaged, imagenet, a path, or space:NAME for the backbone of a short training of that
    space. `frozen_until`: modules before it (or all) are fixed.
    """

    name: Name = "resnet20"
    weights: FilePath = "none"
    frozen_bn: bool = False
    frozen_until: Annotated[Name | None, BeforeValidator(_name_or_null)] = None


class EmbeddingSettings(Section):
    """`dim: none` takes the backbone's own features, without a 1×1 convolution to `dim` channels."""

    dim: Annotated[Annotated[int, Field(ge=2, le=8192)] | None, BeforeValidator(_none_is_null)] = 128


class ComponentSettings(Section):
    """A name and the parameters of the class of that name, by their YAML names."""

    model_config = ConfigDict(extra="allow")
    name: Name

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the name: the arguments of `load(name, **parameters)`."""
        return dict(self.model_extra or {})


class BatchSettings(Section):
    """`samples_per_class: 0` (or none) draws images without regard to their class, `all` draws classes with
    all their images; `categories: 2` makes every batch of two categories (hard batches, seed 004).
    """

    size: int = Field(default=64, ge=2, le=65536)
    samples_per_class: Annotated[int | Literal["all"], PlainValidator(_samples_per_class)] = 4
    categories: Literal[2] | None = None


class ZeroShotSettings(Section):
    """The zero-shot prediction loss of a pooling with attributes, mixed in with `weight` (eq. 5.2.5)."""

    weight: float = Field(default=0.0, ge=0, lt=1)
    ridge: float = Field(default=0.05, gt=0, le=1e6)
    scale: float = Field(default=9.5, gt=0, le=1e6)


class OptimizerSettings(Section):
    """`betas` are for adam and adamw, `momentum` for sgd; factors multiply lr for new layers and proxies.

    From each of the steps in `milestones` on, lr is multiplied by `decay`, and also after every `plateau`
    validations without improvement. `clip_norm` bounds the norm of the
    whole gradient. For `warmup_new_layers` steps the backbone is not trained. `ema` is the decay of an
    average of the weights, which is then validated and saved (0: none).
    """

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = Field(default=1e-3, gt=0, le=100)
    weight_decay: float = Field(default=0.0, ge=0, le=10)
    betas: Annotated[tuple[Beta, Beta], BeforeValidator(_tuple)] | None = None
    momentum: Beta | None = None
    new_layer_factor: float = Field(default=1.0, gt=0, le=1e6)
    proxy_factor: float = Field(default=1.0, gt=0, le=1e6)
    milestones: Annotated[tuple[Count, ...], BeforeValidator(_tuple), Field(max_length=MAX_MILESTONES)] = ()
    decay: float = Field(default=0.1, gt=0, le=1)
    plateau: Count | None = None
    clip_norm: Annotated[float, Field(gt=0, le=1e6)] | None = None
    warmup_new_layers: int = Field(default=0, ge=0)
    ema: Beta = 0.0


class DeviceSettings(Section):
    """How a training uses its device, equal for all trials; the method stays the same.

    `compile`: torch compiles what a training step computes, which takes up to minutes and pays in long
    trainings. `channels_last`: the order in memory of images and weights that tensor cores work fastest in.
    `pinned`: batches for a GPU are prepared in page-locked memory. `timeout_s`: seconds after which a rank
    gives up waiting for the others.
    """

    compile: bool = False
    channels_last: bool = True
    pinned: bool = True
    timeout_s: int = Field(default=1800, ge=60, le=86400)


class MonitorSettings(Section):
    """Every `every` steps, and at every validation, `images` validation images (whole classes) are measured.

    Their score ends the projections of CCP, whose `patience` then counts these measurements. They decide
    nothing else: trials are compared by their validations. Without `every` the validations do both.
    """

    every: Count | None = None
    images: int = Field(default=500, ge=4)


class ObjectiveSettings(Section):
    """What a search improves, measured on which split of the training classes.

    `conventional` trains on all of them and validates on the test classes, which every result says. `within`
    trains on all classes of both halves and validates on other images of the same classes. With `against`,
    costs of the model that should be low, a search also finds the front of the score and these.
    """

    metric: Literal["map_at_r", "precision_at_1", "covering_radius"] = "map_at_r"
    mode: Literal["max", "min"] = "max"
    protocol: Literal["ablation", "fair", "tuning", "halves", "conventional", "within", "all_classes"] = (
        "ablation"
    )
    against: Annotated[tuple[Cost, ...], BeforeValidator(_tuple), AfterValidator(_once)] = ()
    folds: Annotated[int, Field(ge=1, le=20)] = 1  # a trial that loses is dropped between two of them
