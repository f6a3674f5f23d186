"""Write a value as one line of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dmltune.experiment.files.document import scalar

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def flow(value: Any) -> str:
    """Return a value in one line of YAML; texts that could be read as another type are quoted."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and scalar(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
