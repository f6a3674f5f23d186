"""Experiment: the frozen description of one training run and of what a search may vary in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, ValidationError

from dmltune.errors import UserError
from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Problem, near_or_list, show
from dmltune.experiment.schema.sections import (
    BackboneSettings,
    BatchSettings,
    ComponentSettings,
    Count,
    DataSettings,
    EmbeddingSettings,
    ObjectiveSettings,
    OptimizerSettings,
    Section,
    ZeroShotSettings,
)
from dmltune.experiment.schema.validation_errors import problem_of
from dmltune.experiment.space.search_space import SearchSpace

SEARCH_KEYS = ("search", "require", "reference_point", "baseline")


class Experiment(Section):
    """Every value a training run depends on. Built by `load_experiment` or `from_dict`, which check it."""

    about: str = ""
    data: DataSettings
    backbone: BackboneSettings = BackboneSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    pooling: ComponentSettings = ComponentSettings(name="gap")
    loss: ComponentSettings
    references: ComponentSettings = ComponentSettings(name="batch")
    transform: ComponentSettings = ComponentSettings(name="identity")
    zero_shot: ZeroShotSettings = ZeroShotSettings()
    batch: BatchSettings = BatchSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    max_steps: int = Field(default=600, ge=1)
    validate_every: int = Field(default=100, ge=1)
    patience: Count | None = None
    fold: int = Field(default=0, ge=0)
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    search: dict[str, dict[str, Any]] = {}
    require: list[str] = []
    objective: ObjectiveSettings = ObjectiveSettings()
    sampler: Literal["tpe", "gp", "random"] = "tpe"
    scheduler: Literal["asha", "none"] = "asha"
    trials: Count = 20
    reference_point: dict[str, Any] = {}
    baseline: dict[str, Any] = {}
    presets: dict[str, dict[str, dict[str, Any]]] = {}

    @property
    def searchable(self) -> bool:
        """Whether there is anything to vary."""
        return bool(self.search)

    @cached_property
    def space(self) -> SearchSpace:
        """What may vary, compiled; empty for an experiment without `search:`."""
        try:
            return SearchSpace.build(self.to_dict())
        except Problem as problem:
            raise UserError(str(problem)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Experiment:
        """Pydantic's copy, without the compiled space of the original."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("space", None)
        return copied

    def to_dict(self) -> dict[str, Any]:
        """Complete and canonical: JSON types only, defaults filled in. `from_dict` is the inverse."""
        tree = self.model_dump(mode="json")
        for key in ("betas", "momentum"):
            if tree["optimizer"][key] is None:
                del tree["optimizer"][key]
        return tree

    @staticmethod
    def from_dict(tree: Mapping[str, Any]) -> Experiment:
        """The experiment that `to_dict` described; checked as a file is."""
        from dmltune.experiment.schema.build import build_or_raise

        return build_or_raise(tree)

    @staticmethod
    def from_validated(tree: Mapping[str, Any]) -> Experiment:
        """Read a `to_dict` tree that was validated when it was made, also by an older version.

        Orders, checkpoints and plans carry such trees. Types are read strictly, but no component is imported
        and no rule between keys is evaluated: `from_dict` does both.
        """
        complete: dict[str, Any] = {}
        try:
            trees.lay_over(complete, tree)
            return Experiment.model_validate(complete)
        except (AttributeError, TypeError):
            raise UserError(f"an experiment must be a mapping; got {show(tree)}.") from None
        except ValidationError as error:
            raise UserError(str(problem_of(error, Experiment))) from None

    def get(self, name: str) -> Any:
        """The value of a dotted key, such as `references.lambda`."""
        found = trees.lookup(self.to_dict(), name)
        if found is trees.MISSING:
            known = [*trees.flatten(self.to_dict()), *trees.SECTIONS]
            raise UserError(f"no value '{name}' in the experiment{near_or_list(name, known)}")
        return found

    def settings(self) -> dict[str, Any]:
        """Dotted key → value of all that makes this run what it is, for people who compare runs."""
        return {
            key: value
            for key, value in trees.flatten(self.to_dict()).items()
            if not key.startswith("presets.")
        }

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """This experiment with dotted keys set; a new component name drops the parameters of the old one."""
        from dmltune.experiment.schema.build import build_or_raise

        return build_or_raise(trees.with_values(self.to_dict(), values))

    def point(self, values: Mapping[str, Any], validated: bool = False) -> Experiment:
        """Return the run of one trial: `values` must be a point of the space; nothing is left to search.

        `validated` values were drawn inside the bounds and passed `space.violated`; the rules are not
        evaluated a second time.
        """
        from dmltune.experiment.schema.build import build

        try:
            if not validated:
                self.space.check_point(values)
            return build(trees.with_values(self.fixed().to_dict(), values), between_keys=False)
        except Problem as problem:
            raise UserError(str(problem)) from None

    def fixed(self) -> Experiment:
        """The same training run without a search."""
        return self.model_copy(update={"search": {}, "require": [], "reference_point": {}, "baseline": {}})

    def reference_experiment(self) -> Experiment:
        """Trial 0 of a search, and what `train` runs: the reference point where there is one."""
        return self.point(self.space.reference_point) if self.searchable else self.fixed()

    def baseline_experiment(self) -> Experiment | None:
        """What a search is compared with: the reference point under `baseline`; None without one."""
        if not self.baseline:
            return None
        from dmltune.experiment.schema.build import build_or_raise

        return build_or_raise(trees.merged(self.reference_experiment().to_dict(), self.baseline))

    def differences(self, other: Experiment, ignore: Collection[str] = ()) -> list[str]:
        """One line per dotted key that differs, `max_steps: 600 → 300`, from this experiment to the other."""
        mine, theirs = trees.flatten(self.to_dict()), trees.flatten(other.to_dict())
        lines = []
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            if key in ignore or key.split(".")[0] in ignore:
                continue
            old, new = mine.get(key, trees.MISSING), theirs.get(key, trees.MISSING)
            if old is trees.MISSING or new is trees.MISSING or old != new or type(old) is not type(new):
                lines.append(f"{key}: {_or_unset(old)} → {_or_unset(new)}")
        return lines


def _or_unset(value: Any) -> str:
    return "not set" if value is trees.MISSING else show(value)
