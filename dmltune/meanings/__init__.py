"""What the keys of an experiment mean: two data files, one table for each key.

A key of a component stands below its name: `references.ccp.lambda` is what YAML calls `references.lambda`
while `references: ccp`. Bounds and defaults are not here: the signatures have them.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILES = ("method.toml", "settings.toml")
TEXTS = ("meaning", "equation", "papers")


@dataclass(frozen=True)
class Meaning:
    """`key` as YAML has it, of `component` or of every one; `papers` is the value that the papers print."""

    key: str
    component: str
    meaning: str
    equation: str = ""
    papers: str = ""


@functools.cache
def meanings() -> Mapping[str, tuple[Meaning, ...]]:
    """Return key → what it means, for each component that has it."""
    found: dict[str, list[Meaning]] = {}
    for name in FILES:
        with (Path(__file__).parent / name).open("rb") as file:
            for path, texts in _tables(tomllib.load(file)):
                component = path[1] if len(path) == 3 else ""
                key = ".".join((path[0], *path[-1:])) if len(path) > 1 else path[0]
                found.setdefault(key, []).append(Meaning(key, component, **texts))
    return {key: tuple(each) for key, each in found.items()}


def _tables(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree.get("meaning"), str):
        yield path, {name: text for name, text in tree.items() if name in TEXTS}
    for name, inner in tree.items():
        if isinstance(inner, Mapping):
            yield from _tables(inner, (*path, name))
