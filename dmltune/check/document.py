"""`check.json` as dataclasses: what a check measured, with a schema number.

Figures are fractions. None stands for an unknown figure: one model says nothing about chance. Where the names
of attributes and of JSON keys differ, the field has the key as its alias.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, TypeAdapter

from dmltune.check.parsing import parse
from dmltune.errors import UserError, readable
from dmltune.ledger import LedgerEntry

SCHEMA = 2  # 1: documents without a number
Figure = float | None


@dataclass(frozen=True)
class ModelResult:
    """One trained model: its best `validation` score, and its metrics on the `test` classes."""

    member: str
    fold: int
    seed: int
    run_id: str
    step: int
    validation: Figure
    test: Mapping[str, Figure]


@dataclass(frozen=True)
class MeanResult:
    """A metric's mean over single models: the fields of `statistics.Interval`."""

    mean: Figure
    low: Figure = None
    high: Figure = None
    sd: Figure = None
    df: Figure = None


@dataclass(frozen=True)
class EnsembleResult:
    """A metric's mean over collections of one model a fold, concatenated to `dim` dimensions.

    `sd` is the standard deviation of the collections' scores.
    """

    mean: Figure
    low: Figure
    high: Figure
    collections: int
    dim: int
    sd: Figure = None


@dataclass(frozen=True)
class BaselineComparison:
    """`statistics.Comparison` with the baseline, and the p-value after Holm's correction."""

    p_holm: Figure
    difference: Figure
    low: Figure
    high: Figure
    p: Figure
    effect_size: Figure
    wins: Figure
    fold_sd: Figure
    seed_sd: Figure
    class_sd: Figure
    models: int
    classes: int


@dataclass(frozen=True)
class ConfigurationResult:
    """All that was measured of one configuration. `single` and `ensemble` are by metric."""

    key: str
    labels: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    models: tuple[ModelResult, ...] = ()
    single: Mapping[str, MeanResult] = field(default_factory=dict)
    ensemble: Mapping[str, EnsembleResult] = field(default_factory=dict)
    versus_baseline: BaselineComparison | None = None
    geometry: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`winner = reference point` where both have the same values."""
        return " = ".join(self.labels) or self.key


@dataclass(frozen=True)
class SearchScore:
    """The winner's score in the search, and without the luck of the best of `trials`."""

    metric: str
    observed: Figure
    corrected: Figure
    bias: Figure
    noise_sd: Figure
    trials: Annotated[int, Field(alias="n")]


@dataclass(frozen=True)
class ClassScores:
    """The test classes, their numbers of images, and their scores by configuration."""

    names: tuple[str, ...]
    images: tuple[int, ...]
    scores: Mapping[str, tuple[Figure, ...]]


@dataclass(frozen=True)
class ClassConfusion:
    """`count` queries of class `of`, a `share` of them, are nearest to class `taken_for`."""

    of: str
    taken_for: Annotated[str, Field(alias="as")]
    count: int
    share: float


@dataclass(frozen=True)
class DistanceHistogram:
    """Counts of pairs of the same class and of different classes, between the `edges`."""

    edges: tuple[float, ...]
    positive: tuple[int, ...]
    negative: tuple[int, ...]


def _from_columns(tree: Any) -> Any:
    """Return the fields of `ClassScores` for the JSON form, a column for each configuration."""
    if not isinstance(tree, dict):
        return tree
    scores = {key: column for key, column in tree.items() if key not in ("classes", "images")}
    return {"names": tree.get("classes"), "images": tree.get("images"), "scores": scores}


def _to_columns(table: ClassScores | None) -> dict[str, Any] | None:
    return None if table is None else {"classes": table.names, "images": table.images, **table.scores}


_FIGURES = (
    *("test_images", "test_classes", "queries_without_match"),
    *("search_score", "per_class", "confusions", "distances"),
)
_OPTIONAL = ("warning", "baseline_search", "validation_only")


@dataclass(frozen=True)
class CheckDocument:
    """A check of one name. A check that was stopped has no configurations and no figures.

    `metric` is the metric of comparisons, `level` that of intervals. `failed` is by member. `plan` is the
    digest of what was to be trained, `planned_models` its size. `seen_before` is true when figures of this
    study were shown before this check. With `validation_only` no test class was read: `single` and the
    comparisons are of validation scores.
    """

    name: str
    space_name: str
    data: str
    fingerprint: str
    protocol: str
    folds: int
    repeats: int
    search: str = ""
    metric: str = "map_at_r"
    level: float = 0.95
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    baseline: str | None = None  # key of a configuration
    stopped: bool = False
    failed: Mapping[str, str] = field(default_factory=dict)
    plan: str = ""
    planned_models: Annotated[int, Field(alias="models")] = 0
    configurations: tuple[ConfigurationResult, ...] = ()
    openings: tuple[LedgerEntry, ...] = ()
    seen_before: Annotated[bool, Field(alias="again")] = False
    test_images: int = 0
    test_classes: int = 0
    queries_without_match: int = 0
    search_score: SearchScore | None = None
    per_class: Annotated[ClassScores | None, BeforeValidator(_from_columns), PlainSerializer(_to_columns)] = (
        None
    )
    confusions: Mapping[str, tuple[ClassConfusion, ...]] = field(default_factory=dict)
    distances: Mapping[str, DistanceHistogram] = field(default_factory=dict)
    warning: str = ""
    baseline_search: str = ""  # its name, when the baseline was searched too
    validation_only: bool = False
    schema: int = SCHEMA

    def configuration(self, key: str | None) -> ConfigurationResult | None:
        return next((result for result in self.configurations if result.key == key), None)

    def score(self, model: ModelResult, metric: str) -> Figure:
        """Return a model's score on the classes that this check measures."""
        return model.validation if self.validation_only else model.test.get(metric)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; NaN becomes null."""
        tree: dict[str, Any] = json.loads(TypeAdapter(CheckDocument).dump_json(self, by_alias=True))
        absent = [key for key in _OPTIONAL if not tree[key]] + [key for key in _FIGURES if self.stopped]
        return {key: value for key, value in tree.items() if key not in absent}

    @classmethod
    def from_dict(cls, tree: Any, place: str = "check.json") -> CheckDocument:
        """Return the document of `to_dict`, also of schema 1. `place` names it in messages."""
        if isinstance(tree, dict):
            schema = tree.get("schema", 1)
            if schema not in (1, SCHEMA):
                raise UserError(
                    f"{place} has schema {readable(str(schema))}, and this version reads 1 and {SCHEMA}. "
                    "Use the version of dmltune that wrote it."
                )
            tree = tree | {"schema": SCHEMA}
        return parse(cls, tree, place, "Restore it from a backup, or check again under another --name.")
