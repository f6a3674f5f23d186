"""Experiment: the frozen description of one training run and of what a search may vary in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, ValidationError

from dmltune.errors import UserError, readable
from dmltune.experiment import tree as trees
from dmltune.experiment.preparation import prepared
from dmltune.experiment.problems import Problem, near_or_list, problem_of, show
from dmltune.experiment.schema import components, rules
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
from dmltune.experiment.space.search_space import SearchSpace


class Experiment(Section):
    """Every value a training run depends on, as `load_experiment` and `from_dict` have validated it."""

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
    sampler: ComponentSettings = ComponentSettings(name="tpe")
    scheduler: ComponentSettings = ComponentSettings(name="asha")
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
        """The search space; empty for an experiment without `search:`."""
        try:
            return SearchSpace.build(self.to_dict())
        except Problem as problem:
            raise UserError(str(problem)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Experiment:
        """Copy without the search space of the original."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("space", None)
        return copied

    def to_dict(self) -> dict[str, Any]:
        """Return a complete and canonical tree of JSON types. `from_dict` is the inverse."""
        tree = self.model_dump(mode="json")
        for key in ("betas", "momentum"):
            if tree["optimizer"][key] is None:
                del tree["optimizer"][key]
        return tree

    @staticmethod
    def from_dict(tree: Mapping[str, Any]) -> Experiment:
        """Validate a tree in full, as a file is validated; a UserError names the key."""
        try:
            return build(tree)
        except Problem as problem:
            raise UserError(str(problem)) from None

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
        """Return the value of a dotted key, such as `references.lambda`."""
        value = trees.lookup(self.to_dict(), name)
        if value is trees.MISSING:
            known = [*trees.flatten(self.to_dict()), *trees.SECTIONS]
            raise UserError(f"no value {readable(name)} in the experiment{near_or_list(name, known)}")
        return value

    def settings(self) -> dict[str, Any]:
        """Return dotted key → value of everything that determines this run."""
        flat = trees.flatten(self.to_dict())
        return {key: value for key, value in flat.items() if not key.startswith("presets.")}

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """Set dotted keys in a copy; a new component name drops the parameters of the old one."""
        return Experiment.from_dict(trees.with_values(self.to_dict(), values))

    def point(self, values: Mapping[str, Any], validated: bool = False) -> Experiment:
        """Return the run of one trial: `values` must be a point of the space; nothing is left to search.

        `validated` values were drawn inside the bounds and passed `space.violated`; the rules are not
        evaluated a second time.
        """
        try:
            if not validated:
                self.space.validate_point(values)
            return build(trees.with_values(self.fixed().to_dict(), values), between_keys=False)
        except Problem as problem:
            raise UserError(str(problem)) from None

    def fixed(self) -> Experiment:
        """Return the same training run without a search."""
        return self.model_copy(update={"search": {}, "require": [], "reference_point": {}, "baseline": {}})

    def reference_experiment(self) -> Experiment:
        """Return trial 0 of a search, which `train` runs: the reference point, if the experiment has one."""
        return self.point(self.space.reference_point) if self.searchable else self.fixed()

    def baseline_experiment(self) -> Experiment | None:
        """Return the reference point changed by `baseline`, or None without a baseline."""
        if not self.baseline:
            return None
        return Experiment.from_dict(trees.merged(self.reference_experiment().to_dict(), self.baseline))

    def differences(self, other: Experiment, ignore: Collection[str] = ()) -> list[str]:
        """Return a line for each dotted key that differs, such as `max_steps: 600 → 300`."""
        mine, theirs = trees.flatten(self.to_dict()), trees.flatten(other.to_dict())
        lines = []
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            if key in ignore or key.split(".")[0] in ignore:
                continue
            old, new = mine.get(key, trees.MISSING), theirs.get(key, trees.MISSING)
            if old is trees.MISSING or new is trees.MISSING or old != new or type(old) is not type(new):
                lines.append(f"{key}: {_or_unset(old)} → {_or_unset(new)}")
        return lines


def build(tree: Mapping[str, Any], between_keys: bool = True) -> Experiment:
    """Validate sections, components and, by default, the rules between keys; raises Problem."""
    complete = prepared(tree, Experiment.model_fields)
    components.complete(complete)
    try:
        experiment = Experiment.model_validate(complete)
    except ValidationError as error:
        raise problem_of(error, Experiment) from None
    if between_keys:
        rules.validate_values(trees.flatten(experiment.to_dict()))
        for section in components.VALIDATED_TOGETHER:
            reason = components.refused(section, complete[section], experiment.embedding.dim)
            if reason:
                raise Problem(reason, *((section, key) for key in complete[section]))
    if experiment.searchable:
        reference = SearchSpace.build(experiment.to_dict()).reference_point
        return experiment.model_copy(update={"reference_point": dict(reference)})
    if experiment.reference_point:
        first = next(iter(experiment.reference_point))
        raise Problem("reference_point without search has no meaning. Delete it.", ("reference_point", first))
    return experiment


def _or_unset(value: Any) -> str:
    return "not set" if value is trees.MISSING else show(value)
