"""A merged tree of plain values → a checked Experiment. Raises Problem, without a place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dmltune.errors import UserError
from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Path, Problem, kind_of, one_line, show, unknown
from dmltune.experiment.schema import components, rules
from dmltune.experiment.schema.model import Experiment
from dmltune.experiment.schema.validation_errors import problem_of
from dmltune.experiment.space.parameter import Parameter, is_scalar
from dmltune.experiment.space.search_space import SearchSpace

DEFAULT_NAMES = {
    "backbone": "resnet20",
    "pooling": "gap",
    "references": "batch",
    "transform": "identity",
    "optimizer": "adam",
}
DEFAULT_BETAS = [0.9, 0.999]
DEFAULT_MOMENTUM = 0.9


def build_or_raise(tree: Mapping[str, Any]) -> Experiment:
    """`build` for values that come from no file: the UserError names the key alone."""
    try:
        return build(tree)
    except Problem as problem:
        raise UserError(str(problem)) from None


def build(tree: Mapping[str, Any], between_keys: bool = True) -> Experiment:
    """Check sections, components and, if asked, the rules between keys; fill in the defaults."""
    complete = prepared(tree)
    components.complete(complete)
    try:
        experiment = Experiment.model_validate(complete)
    except ValidationError as error:
        raise problem_of(error, Experiment) from None
    if between_keys:
        rules.check_values(trees.flatten(experiment.to_dict()))
        for section in components.CHECKED_TOGETHER:
            reason = components.refused(section, complete[section], experiment.embedding.dim)
            if reason:
                raise Problem(reason, *((section, key) for key in complete[section]))
    if experiment.searchable:
        reference = SearchSpace.build(experiment.to_dict()).reference_point
        experiment = experiment.model_copy(update={"reference_point": dict(reference)})
    elif experiment.reference_point:
        first = next(iter(experiment.reference_point))
        raise Problem("reference_point without search has no meaning. Delete it.", ("reference_point", first))
    return experiment


def prepared(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with short forms written out, default names, a canonical `search`, and no unknown key."""
    if not isinstance(tree, Mapping):
        raise Problem(f"an experiment must be a mapping; got {kind_of(tree)}.")
    complete: dict[str, Any] = {}
    trees.lay_over(complete, tree)
    complete.pop("extends", None)
    for key in complete:
        if key.split(".")[0] in trees.SECTIONS and "." in key:
            nested = show(trees.nested(key, complete[key]))[1:-1]
            raise Problem(f"a dotted key is for search and the command line. Write '{nested}'.", (key,))
        if key not in Experiment.model_fields:
            raise Problem(unknown(key, [*Experiment.model_fields, "extends"]), (str(key),))
    _check_finite(complete, ())
    for section, name in DEFAULT_NAMES.items():
        value = complete.setdefault(section, {"name": name})
        if isinstance(value, dict):
            complete[section] = {"name": value.get("name", name), **value}
    optimizer = complete["optimizer"]
    if isinstance(optimizer, dict):
        if optimizer["name"] == "sgd":
            optimizer.setdefault("momentum", DEFAULT_MOMENTUM)
        elif optimizer["name"] in ("adam", "adamw"):
            optimizer.setdefault("betas", DEFAULT_BETAS)
    for key in ("search", "reference_point", "baseline"):
        if complete.get(key) is None:
            complete[key] = {}
        if not isinstance(complete[key], dict):
            raise Problem(
                f"{key} must be a mapping of 'key: value' lines; got {kind_of(complete[key])}.", (key,)
            )
    for key in trees.FLAT:
        for name in complete[key]:
            if name in trees.SECTIONS and isinstance(complete[key][name], dict):
                inner = next(iter(complete[key][name]), "…")
                raise Problem(f"{key} takes dotted keys. Write '{name}.{inner}: …'.", (key, name))
    complete["search"] = {
        name: Parameter.parse(name, spec).to_dict() for name, spec in complete["search"].items()
    }
    if isinstance(complete.get("about"), str):
        complete["about"] = " ".join(complete["about"].split())
    for name, value in complete["reference_point"].items():
        if not is_scalar(value):
            raise Problem(
                f"reference_point takes one value a key; got {kind_of(value)} for {one_line(name)}. "
                "Write dotted keys, such as 'references.lambda: 2.0e-4'.",
                ("reference_point", name),
            )
    return complete


def _check_finite(value: Any, path: Path) -> None:
    """JSON and the trackers know no NaN; values that come from no file have not been checked for it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_finite(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_finite(item, (*path, str(index)))
    elif isinstance(value, float) and not is_scalar(value):
        raise Problem(f"{'.'.join(path)} must be a finite number; got {value!r}.", path)
