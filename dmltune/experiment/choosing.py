"""Choose components in a tree: presets bring their settings where nothing nearer sets them.

A tree is laid once (`lay_presets`): keys that a nearer layer sets are taken out of the presets, and
`presets.otherwise` records what all other keys are without a preset. From then on a new name of a component
changes what presets bring, in any copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from dmltune.experiment import tree as trees
from dmltune.experiment.problems import Path
from dmltune.experiment.schema import components, presets

Nearer = Callable[[Path, Path], bool]


def names_of(tree: Mapping[str, Any]) -> dict[str, str]:
    """Return section → name for the components that the tree names."""
    parts = {section: trees.normalised((section,), tree.get(section)) for section in presets.CHOSEN}
    return {
        section: part["name"]
        for section, part in parts.items()
        if isinstance(part, Mapping) and isinstance(part.get("name"), str)
    }


def lay_presets(tree: dict[str, Any], nearer: Nearer | None = None) -> None:
    """Set in place what the presets of the chosen components bring.

    `nearer(key, preset)` says whether a layer above that of the preset sets the key; by default every key of
    the tree is nearer. A tree that was laid before stays as it is.
    """
    if not isinstance(tree.get("presets"), Mapping) or presets.OTHERWISE in tree["presets"]:
        return
    components.validate_presets(tree["presets"])
    names = names_of(tree)
    otherwise: dict[str, Any] = {}
    for path, sources in presets.paths(tree["presets"]).items():
        place = _place(path, names)
        overruled = [source for source in sources if place and _overruled(tree, place, source, nearer)]
        for source in overruled:
            _remove(tree, source)
        if len(overruled) < len(sources):
            trees.lay_over(otherwise, trees.nested(path, _without_preset(tree, path, names)))
    if otherwise:
        tree["presets"][presets.OTHERWISE] = otherwise
        _bring(tree)


def with_values(tree: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with dotted values; a new component comes with its presets, unless `values` set them."""
    result = copy.deepcopy(dict(tree))
    before = names_of(result)
    sections = {key: value for key, value in values.items() if key in presets.CHOSEN}
    names = names_of(sections) | {key[:-5]: name for key, name in values.items() if key.endswith(".name")}
    for section in presets.CHOSEN:
        if section in names:
            trees.lay_over(result, {section: {"name": names[section]}})
    if names_of(result) != before:
        _bring(result)
    return trees.with_values(result, values)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `base` with the nested `over` laid over it, components with their presets."""
    names = {f"{section}.name": name for section, name in names_of(over).items()}
    return trees.merged(with_values(base, names), over)


def brought_values(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted key → value in the tree, of all keys that presets may set here."""
    brought = presets.brought(tree["presets"], names_of(tree))
    return {key: trees.lookup(tree, key) for key in brought}


def without_idle_presets(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree with the presets of those components that the search or the baseline may choose."""
    choices = set(names_of(tree["baseline"]).items())
    for section in presets.CHOSEN:
        spec = tree["search"].get(f"{section}.name", {})
        ranges = spec if isinstance(spec, list) else [spec]
        choices |= {(section, choice) for each in ranges for choice in each.get("choice", ())}
    known = tree["presets"]
    used: dict[str, Any] = {}
    for section, name in choices:
        if preset := known.get(section, {}).get(name):
            used.setdefault(section, {})[name] = preset
    if used and presets.paths(used):
        used[presets.OTHERWISE] = known.get(presets.OTHERWISE, {})
    return {**tree, "presets": used}


def _bring(tree: dict[str, Any]) -> None:
    known = tree.get("presets") or {}
    for key, value in presets.brought(known, names_of(tree)).items():
        section, _, leaf = key.partition(".")
        part = trees.normalised((section,), tree.get(section) or {})
        if isinstance(part, Mapping):  # otherwise an error that the validation reports
            tree[section] = {**part, leaf: copy.deepcopy(value)}


def _overruled(tree: Mapping[str, Any], place: Path, source: Path, nearer: Nearer | None) -> bool:
    """Whether a nearer layer sets the key, or the backbone that the weights of a preset are for."""
    places = {place, ("backbone", "name")} if place[0] == "backbone" else {place}
    present = [each for each in places if trees.lookup(tree, ".".join(each)) is not trees.MISSING]
    return any(nearer is None or nearer(each, source) for each in present)


def _place(path: Path, names: Mapping[str, str]) -> Path | None:
    """Return where the tree has the value; None for a component that is not chosen."""
    if len(path) == 2:
        return path
    section, name, key = path
    return (section, key) if names.get(section) == name else None


def _without_preset(tree: Mapping[str, Any], path: Path, names: Mapping[str, str]) -> Any:
    place = _place(path, names)
    value = trees.MISSING if place is None else trees.lookup(tree, ".".join(place))
    if value is not trees.MISSING:
        return value
    if len(path) == 2:
        return components.PLAIN_MODELS[path[0]].model_fields[path[1]].default
    section, name, key = path
    preset = tree["presets"].get(section, {}).get(name, {})
    return preset[key] if key in preset else components.defaults(section, name)[key]


def _remove(tree: dict[str, Any], path: Path) -> None:
    inner = tree
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
