"""Mistakes that a user can correct: one line (rule, value, remedy), no traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 120  # characters of a value that a message shows
NOTE = 25  # the level of log records that are shown without -v and warn of nothing


class UserError(Exception):
    """Bad input. The message is one line that says the rule, the value and the remedy."""


class UserErrors(UserError):
    """Several mistakes at once: `lines` has one each, perhaps with a heading and a command that helps."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(self.lines))


def nearest(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest option, or nothing when none is close."""
    close = difflib.get_close_matches(word[:LONGEST], list(options), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def readable(text: str) -> str:
    """Return `text` in quotes, shortened, with control characters and broken UTF-8 escaped."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…({len(text):,} characters)"
    return "'" + "".join(map(_escaped, shown)) + "'"


def printable(text: str) -> str:
    """Return `text` with control characters and broken UTF-8 escaped; line breaks stay."""
    return "".join(character if character == "\n" else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000:
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return character
