"""JSON files that a kill leaves either old or new, never half."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, document: Any) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with open(scratch, "w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
