"""Stored JSON documents as dataclasses. A damaged document is a UserError of one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from dmltune.errors import UserError, parse_json
from dmltune.store import require_regular

T = TypeVar("T")


def read_stored(path: Path, remedy: str, build: Callable[[Any], T]) -> T | None:
    """Return what `build` makes of the JSON document at `path`; None without a file."""
    if not path.exists():
        return None
    require_regular(path)
    try:
        tree = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}). {remedy}") from None
    return build(tree)


def parse(kind: type[T], tree: Any, place: str, remedy: str) -> T:
    """Return the dataclass of a JSON `tree`; `place` names the document in messages."""
    if not isinstance(tree, dict):
        raise UserError(f"{place} is damaged: it must be a JSON object. {remedy}")
    try:
        return TypeAdapter(kind).validate_python(tree)
    except UserError as error:  # of an experiment inside
        raise UserError(f"{place} is damaged: {error} {remedy}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{place} is damaged: {where}: {first['msg'].lower()}. {remedy}") from None
