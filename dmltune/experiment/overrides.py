"""`key=value` texts that change an experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment import tree as trees
from dmltune.experiment.files.document import read_value, unreadable
from dmltune.experiment.problems import one_line

MAX_LENGTH = 10_000


def shown_override(text: str) -> str:
    """Return an override as messages show it."""
    return f"override '{one_line(text, 100)}'"


def parse_override(text: str) -> tuple[str, Any]:
    """Return the dotted key and the value; every mistake is one UserError line."""
    key, equals, raw = text.partition("=")
    key = key.strip()
    reason: str | None = None
    value: Any = None
    if len(text) > MAX_LENGTH:
        reason = f"an override has at most {MAX_LENGTH:,} characters; got {len(text):,}."
    elif not equals or not key:
        reason = "an override is key=value, such as max_steps=300."
    elif any(not part or part != part.strip() for part in trees.split(key)):
        reason = "a key is names with dots between them, such as loss.name."
    else:
        try:
            value, reason = read_value(raw), unreadable(key)
        except ValueError as error:
            reason = str(error)
    if reason:
        raise UserError(f"{shown_override(text)}: {reason}")
    return key, value


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return dotted key → value, for an experiment that exists already."""
    return dict(map(parse_override, texts))
