"""Write a proposed space as YAML: one line for a section, the reasons above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dmltune.errors import UserError, readable
from dmltune.experiment.files.document import unreadable
from dmltune.experiment.files.flow import flow
from dmltune.propose.method import Choice

BLOCKS = ("search", "reference_point")  # a line for each key


def written(tree: Mapping[str, Any], choices: Iterable[Choice]) -> str:
    """Return the text of the file, with the reasons for a section above its line."""
    reasons: dict[str, list[str]] = {}
    for key, what, value, why in choices:
        reasons.setdefault(key, []).append(f"# {what}: {value} ({why})")
    lines = ["# Proposed by dmltune from counts and sizes. Change it, then run: dmltune search THIS_FILE"]
    for key, value in tree.items():
        lines += reasons.get(key, ())
        if key in BLOCKS:
            lines += [f"{key}:", *(f"  {name}: {flow(item)}" for name, item in value.items())]
        else:
            lines.append(f"{key}: {flow(value)}")
    text = "\n".join(lines) + "\n"
    if reason := unreadable(path := str(tree["data"]["path"])):
        raise UserError(f"the path {readable(path)} cannot be written as YAML: {reason} Use a link to it.")
    return text
