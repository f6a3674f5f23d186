"""`key=value` texts for experiments that exist already, such as the configurations of a check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dmltune.errors import UserError, readable
from dmltune.experiment.files.document import read_value


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return dotted key → value."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, raw = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"override {readable(text)}: an override is key=value, such as max_steps=300.")
        try:
            values[key.strip()] = read_value(raw)
        except ValueError as error:
            raise UserError(f"override {readable(text)}: {error}") from None
    return values
