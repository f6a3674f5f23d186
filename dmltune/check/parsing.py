"""Stored JSON documents as dataclasses. A damaged document is a UserError of one line."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from dmltune.errors import UserError

T = TypeVar("T")


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
