"""Complete a merged tree of plain values before it is validated as an Experiment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dmltune.experiment import tree as trees
from dmltune.experiment.files.document import LARGEST_INT, MAX_DEPTH, unreadable
from dmltune.experiment.problems import Path, Problem, dotted, kind_of, one_line, show, unknown
from dmltune.experiment.space.parameter import Parameter, is_scalar

DEFAULT_NAMES = {
    "backbone": "resnet20",
    "pooling": "gap",
    "references": "batch",
    "transform": "identity",
    "optimizer": "adam",
    "sampler": "tpe",
    "scheduler": "asha",
}
DEFAULT_BETAS = [0.9, 0.999]
DEFAULT_MOMENTUM = 0.9


def prepared(tree: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return a copy with long forms, default names and a canonical `search`; refuse keys not in `known`."""
    if not isinstance(tree, Mapping):
        raise Problem(f"an experiment must be a mapping; got {kind_of(tree)}.")
    _validate_plain(tree)
    complete: dict[str, Any] = {}
    trees.lay_over(complete, tree)
    complete.pop("extends", None)
    for key in complete:
        section = key.split(".")[0]
        if section != key and section in (*trees.SECTIONS, *trees.SEARCH_COMPONENTS):
            nested = show(trees.nested(tuple(key.split(".")), complete[key]))[1:-1]
            raise Problem(f"a dotted key is for search and the command line. Write '{nested}'.", (key,))
        if key not in known:
            raise Problem(unknown(key, [*known, "extends"]), (key,))
    for section, name in DEFAULT_NAMES.items():
        value = complete.setdefault(section, {"name": name})
        if isinstance(value, dict):
            complete[section] = {"name": value.get("name", name), **value}
    optimizer = complete["optimizer"]
    if isinstance(optimizer, dict) and optimizer["name"] == "sgd":
        optimizer.setdefault("momentum", DEFAULT_MOMENTUM)
    elif isinstance(optimizer, dict) and optimizer["name"] in ("adam", "adamw"):
        optimizer.setdefault("betas", DEFAULT_BETAS)
    _prepare_search(complete)
    if isinstance(complete.get("about"), str):
        complete["about"] = " ".join(complete["about"].split())
    return complete


def _prepare_search(complete: dict[str, Any]) -> None:
    for key in ("search", "reference_point", "baseline"):
        value = complete[key] = {} if complete.get(key) is None else complete[key]
        if not isinstance(value, dict):
            raise Problem(f"{key} must be a mapping of 'key: value' lines; got {kind_of(value)}.", (key,))
    for key in trees.FLAT:
        for name, value in complete[key].items():
            if name in trees.SECTIONS and isinstance(value, dict):
                inner = one_line(next(iter(value), "…"), 60)
                raise Problem(f"{key} takes dotted keys. Write '{name}.{inner}: …'.", (key, name))
    complete["search"] = {
        name: Parameter.parse(name, specification).to_dict()
        for name, specification in complete["search"].items()
    }
    for name, value in complete["reference_point"].items():
        if not is_scalar(value):
            raise Problem(
                f"reference_point takes one value a key; got {kind_of(value)} for {one_line(name, 60)}. "
                "Write dotted keys, such as 'references.lambda: 2.0e-4'.",
                ("reference_point", name),
            )


def _validate_plain(value: Any, path: Path = ()) -> None:
    """Refuse what JSON, YAML and the trackers do not take: values may come from a program."""
    where = one_line(dotted(path), 100)
    if len(path) > MAX_DEPTH:
        raise Problem(f"{where} is nested deeper than {MAX_DEPTH} levels. Flatten it.", path)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or unreadable(key):
                raise Problem(f"a key must be a text of printable characters; got {show(key)}.", path)
            _validate_plain(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _validate_plain(item, (*path, str(index)))
    elif value is not None and not isinstance(value, (bool, int, float, str)):
        raise Problem(f"{where} must be a plain value; got {show(value)}.", path)
    elif isinstance(value, float) and not is_scalar(value):
        raise Problem(f"{where} must be a finite number; got {value!r}.", path)
    elif isinstance(value, int) and abs(value) > LARGEST_INT:
        raise Problem(f"{where} must fit 64 bits; got a larger number.", path)
    elif isinstance(value, str) and (reason := unreadable(value)):
        raise Problem(f"{where}: {reason}", path)
