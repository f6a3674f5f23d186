"""A proposed space as YAML for people: one line a section, and above it why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment.files.document import scalar
from dmltune.propose.facts import Facts

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
BLOCKS = ("search", "reference_point")  # a line for each key
ORDER = (
    "about", "data", "backbone", "embedding", "pooling", "loss", "references", "batch", "optimizer",
    "max_steps", "validate_every", "fold", "objective", "search", "require",
    "sampler", "scheduler", "trials", "reference_point", "baseline",
)  # fmt: skip


def written(tree: Mapping[str, Any], facts: Facts, choices: Iterable[tuple[str, str, str, str]]) -> str:
    """The file. `choices` are (key, what, value, why): they stand above the line of their key."""
    reasons: dict[str, list[str]] = {}
    for key, what, value, why in choices:
        reasons.setdefault(key, []).append(f"{what}: {value} ({why})")
    if unplaced := set(tree) - set(ORDER):
        raise AssertionError(f"no place for {unplaced}")
    lines = ["# Proposed by dmltune from counts and sizes; it is yours to change: dmltune search THIS_FILE"]
    for key in ORDER:
        if key not in tree:
            continue
        lines += [f"# {reason}" for reason in reasons.get(key, ())]
        if key in BLOCKS:
            lines.append(f"{key}:")
            lines += [f"  {name}: {flow(value)}" for name, value in tree[key].items()]
        else:
            lines.append(f"{key}: {flow(tree[key])}")
    text = "\n".join(lines) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"the path {facts.path!r} is not valid UTF-8; rename it or use a link to it"
        ) from None
    return text


def flow(value: Any) -> str:
    """A value in one line; texts that could be read as something else are quoted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and scalar(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
