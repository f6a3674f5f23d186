"""What a component brings with it: `presets: {SECTION: {NAME: …}}`, as plain mappings.

    loss:
      proxy_nca: {temperature: 0.11, batch: {samples_per_class: 1}, pooling: {gsp: {epsilon: 0.5}}}

Beside its own parameters a preset may set keys of `batch`, `optimizer` and `backbone`, and parameters that
the component of another section takes while both are chosen. `otherwise` has the values of all these keys
for components that bring none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dmltune.experiment.problems import Path

OTHERWISE = "otherwise"
METHOD = ("loss", "references", "transform", "pooling")  # the last that sets a key decides
CHOSEN = ("backbone", *METHOD)  # sections with presets
PLAIN = ("batch", "optimizer", "backbone")  # sections that a preset sets by key
Presets = Mapping[str, Mapping[str, Mapping[str, Any]]]
Names = Mapping[str, str]  # section → name of its component


def brings(key: str) -> bool:
    """Return whether a key of a preset names a section, not a parameter of the component."""
    return key in PLAIN or key in METHOD


def own(presets: Presets, names: Names, section: str) -> dict[str, Any]:
    """Return the parameters that presets give to the component of a section."""
    name = names[section]
    preset = presets.get(section, {}).get(name, {})
    if section == "backbone":
        return dict(preset)
    values = {key: value for key, value in preset.items() if not brings(key)}
    for settings in _settings(presets, names):
        values |= settings.get(section, {}).get(name, {})
    return values


def brought(presets: Presets, names: Names) -> dict[str, Any]:
    """Return dotted key → value of all that presets set outside of their own components."""
    values: dict[str, Any] = {}
    for settings in (presets.get(OTHERWISE, {}), *_settings(presets, names)):
        for section, inner in settings.items():
            chosen = inner if section in PLAIN else inner.get(names.get(section, ""), {})
            values |= {f"{section}.{key}": value for key, value in chosen.items()}
    return values


def paths(presets: Presets) -> dict[Path, list[Path]]:
    """Return what presets set outside of their own components, and the paths of these presets.

    `(batch, size)` is a key of a plain section, `(pooling, gsp, epsilon)` a parameter of a component.
    """
    found: dict[Path, list[Path]] = {}
    for section in METHOD:
        for name, preset in presets.get(section, {}).items():
            for key in filter(brings, preset):
                for path in _leaves(preset[key], (key,), 1 if key in PLAIN else 2):
                    found.setdefault(path, []).append(("presets", section, name, *path))
    return found


def _settings(presets: Presets, names: Names) -> Iterator[Mapping[str, Any]]:
    """Yield what the chosen components bring, by section."""
    for section in METHOD:
        preset = presets.get(section, {}).get(names.get(section, ""), {})
        yield {key: value for key, value in preset.items() if brings(key)}


def _leaves(value: Mapping[str, Any], path: Path, depth: int) -> Iterator[Path]:
    for key, inner in value.items():
        if depth == 1:
            yield (*path, key)
        else:
            yield from _leaves(inner, (*path, key), depth - 1)
