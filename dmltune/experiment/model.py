"""Experiment: the frozen description of one training run and of what a search may vary in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from dmltune.errors import UserError, readable
from dmltune.experiment import choosing, fidelity
from dmltune.experiment import tree as trees
from dmltune.experiment.files.document import validate_plain
from dmltune.experiment.problems import Problem, kind_of, near_or_list, one_line, problem_of, show, unknown
from dmltune.experiment.schema import components, rules, sections
from dmltune.experiment.schema.sections import ComponentSettings, Count
from dmltune.experiment.space.parameter import is_scalar, parse_ranges, specification
from dmltune.experiment.space.search_space import SearchSpace


class Experiment(sections.Section):
    """Every value a training run depends on, as `load_experiment` and `from_dict` have validated it."""

    about: str = ""
    data: sections.DataSettings
    backbone: sections.BackboneSettings = sections.BackboneSettings()
    embedding: sections.EmbeddingSettings = sections.EmbeddingSettings()
    pooling: ComponentSettings = ComponentSettings(name="gap")
    loss: ComponentSettings
    references: ComponentSettings = ComponentSettings(name="batch")
    transform: ComponentSettings = ComponentSettings(name="identity")
    zero_shot: sections.ZeroShotSettings = sections.ZeroShotSettings()
    batch: sections.BatchSettings = sections.BatchSettings()
    optimizer: sections.OptimizerSettings = sections.OptimizerSettings()
    max_steps: int = Field(default=600, ge=1)
    validate_every: int = Field(default=100, ge=1)
    patience: Count | None = None
    monitor: sections.MonitorSettings = sections.MonitorSettings()
    fold: int = Field(default=0, ge=0)
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    device: sections.DeviceSettings = sections.DeviceSettings()
    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    search: dict[str, dict[str, Any] | list[dict[str, Any]]] = {}
    require: list[str] = []
    balanced: str | None = None
    objective: sections.ObjectiveSettings = sections.ObjectiveSettings()
    sampler: ComponentSettings = ComponentSettings(name="auto")
    scheduler: ComponentSettings = ComponentSettings(name="asha")
    trials: Count = 20
    noise_seeds: Annotated[int, Field(ge=0, le=100)] = 0  # of the reference point; 0: 3, or fewer if short
    repeat_share: Annotated[float, Field(ge=0, le=0.9)] = 0.2  # of the trials, to repeat the candidates
    stop_at_noise: bool = False
    fidelity: dict[str, Any] = {}  # a cheaper training that sorts out points
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
        """Set dotted keys in a copy; a new component drops the old parameters and brings its presets."""
        return Experiment.from_dict(choosing.with_values(self.to_dict(), values))

    def brought(self) -> dict[str, Any]:
        """Return dotted key → value of this run for all keys that presets of components set."""
        return choosing.brought_values(self.to_dict())

    def point(self, values: Mapping[str, Any], validated: bool = False) -> Experiment:
        """Return the run of one trial: `values` must be a point of the space; nothing is left to search.

        `validated` values were drawn inside the bounds and passed `space.violated`; the rules are not
        evaluated a second time.
        """
        try:
            if not validated:
                self.space.validate_point(values)
            return build(choosing.with_values(self.fixed().to_dict(), values), between_keys=False)
        except Problem as problem:
            raise UserError(str(problem)) from None

    def cheap_point(self, values: Mapping[str, Any]) -> Experiment:
        """Return the run of a point at the lower fidelity; a UserError without one."""
        point = self.point(values, validated=True)
        settings = fidelity.Fidelity.of(self.fidelity, self.max_steps, point.data.size).settings
        steps = settings.get("max_steps", self.max_steps)
        every = settings.get("validate_every", min(self.validate_every, steps))
        try:
            return build(choosing.with_values(point.to_dict(), {**settings, "validate_every": every}))
        except Problem as problem:
            raise UserError(str(problem)) from None

    def fixed(self) -> Experiment:
        """Return the same training run without a search."""
        nothing: dict[str, Any] = {
            "search": {},
            "require": [],
            "reference_point": {},
            "baseline": {},
            "balanced": None,
            "noise_seeds": 0,
            "repeat_share": 0.2,
            "stop_at_noise": False,
            "fidelity": {},
            "objective": self.objective.model_copy(update={"against": (), "folds": 1}),
        }
        return self.model_copy(update=nothing)

    def reference_experiment(self) -> Experiment:
        """Return trial 0 of a search, which `train` runs: the reference point, if the experiment has one."""
        return self.point(self.space.reference_point) if self.searchable else self.fixed()

    def baseline_experiment(self) -> Experiment | None:
        """Return the reference point changed by `baseline`, or None without a baseline."""
        if not self.baseline:
            return None
        return Experiment.from_dict(choosing.merged(self.reference_experiment().to_dict(), self.baseline))

    def differences(self, other: Experiment, ignore: Collection[str] = ()) -> list[str]:
        """Return a line for each dotted key that differs, such as `max_steps: 600 → 300`.

        Presets of components that neither the search nor the baseline chooses make no difference.
        """
        mine, theirs = (
            trees.flatten(choosing.without_idle_presets(each.to_dict())) for each in (self, other)
        )
        lines = []
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            if key in ignore or key.split(".")[0] in ignore:
                continue
            old, new = mine.get(key, trees.MISSING), theirs.get(key, trees.MISSING)
            if old is trees.MISSING or new is trees.MISSING or old != new or type(old) is not type(new):
                shown = ("not set" if value is trees.MISSING else show(value) for value in (old, new))
                lines.append(f"{key}: {' → '.join(shown)}")
        return lines


def build(tree: Mapping[str, Any], between_keys: bool = True) -> Experiment:
    """Validate sections, components and, by default, the rules between keys; raises Problem."""
    complete = prepared(tree)
    components.complete(complete)
    try:
        experiment = Experiment.model_validate(complete)
    except ValidationError as error:
        raise problem_of(error, Experiment) from None
    if between_keys:
        rules.validate_values(trees.flatten(experiment.to_dict()))
        for section in components.VALIDATED_TOGETHER:
            if reason := components.refused(section, complete[section], experiment.embedding.dim):
                raise Problem(reason, *((section, key) for key in complete[section]))
    if experiment.searchable:
        reference = SearchSpace.build(experiment.to_dict()).reference_point
        return experiment.model_copy(update={"reference_point": dict(reference)})
    if experiment.fidelity:
        raise Problem("fidelity without search has no meaning. Delete it.", ("fidelity",))
    if experiment.balanced is not None:
        raise Problem("balanced without search has no meaning. Delete it.", ("balanced",))
    if experiment.reference_point:
        first = next(iter(experiment.reference_point))
        raise Problem("reference_point without search has no meaning. Delete it.", ("reference_point", first))
    return experiment


def prepared(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with long forms, default names and a canonical `search`; refuse unknown keys."""
    if not isinstance(tree, Mapping):
        raise Problem(f"an experiment must be a mapping; got {kind_of(tree)}.")
    validate_plain(tree)
    complete: dict[str, Any] = {}
    trees.lay_over(complete, tree)
    complete.pop("extends", None)
    choosing.lay_presets(complete)
    for key in complete:
        section = key.split(".")[0]
        if section != key and section in (*trees.SECTIONS, *trees.SEARCH_COMPONENTS):
            nested = show(trees.nested(tuple(key.split(".")), complete[key]))[1:-1]
            raise Problem(f"a dotted key is for search and the command line. Write '{nested}'.", (key,))
        if key not in Experiment.model_fields:
            raise Problem(unknown(key, [*Experiment.model_fields, "extends"]), (key,))
    for section in trees.NAMED:
        name = getattr(Experiment.model_fields[section].default, "name", None)
        value = complete.setdefault(section, {}) if name else None
        if isinstance(value, dict):
            complete[section] = {"name": name, **value}
    optimizer = complete["optimizer"]
    if isinstance(optimizer, dict) and optimizer["name"] == "sgd":
        optimizer.setdefault("momentum", 0.9)
    elif isinstance(optimizer, dict) and optimizer["name"] in ("adam", "adamw"):
        optimizer.setdefault("betas", [0.9, 0.999])
    _prepare_search(complete)
    if isinstance(complete.get("about"), str):
        complete["about"] = " ".join(complete["about"].split())
    return complete


def _prepare_search(complete: dict[str, Any]) -> None:
    for key in (*trees.FLAT, "baseline"):
        value = complete[key] = {} if complete.get(key) is None else complete[key]
        if not isinstance(value, dict):
            raise Problem(f"{key} must be a mapping of 'key: value' lines; got {kind_of(value)}.", (key,))
    for key in trees.FLAT:
        for name, value in complete[key].items():
            if name in trees.SECTIONS and isinstance(value, dict):
                inner = one_line(next(iter(value), "…"), 60)
                raise Problem(f"{key} takes dotted keys. Write '{name}.{inner}: …'.", (key, name))
    search = complete["search"].items()
    complete["search"] = {name: specification(parse_ranges(name, spec)) for name, spec in search}
    for name, value in complete["reference_point"].items():
        if not is_scalar(value):
            rule = f"takes one value a key; got {kind_of(value)} for {one_line(name, 60)}"
            remedy = "Write dotted keys, such as 'references.lambda: 2.0e-4'."
            raise Problem(f"reference_point {rule}. {remedy}", ("reference_point", name))
