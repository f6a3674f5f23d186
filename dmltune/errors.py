"""Mistakes that a user can correct: one line (rule, value, remedy), no traceback, exit code 2."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any

LONGEST = 120  # characters of a value that a message shows
# control characters, broken UTF-8, line separators, and marks that change the direction of what follows
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]"
)
NOTE = 25  # the level of log records that are shown without -v and warn of nothing


class UserError(Exception):
    """Bad input. The message is one line that says the rule, the value and the remedy."""


class UserErrors(UserError):
    """Several mistakes at once: `lines` has one each, perhaps with a heading and a command that helps."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(self.lines))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that may be damaged: what is nested too deeply is a ValueError, as all bad text is."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def nearest(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest option, or nothing when none is close."""
    close = difflib.get_close_matches(word[:LONGEST], list(options), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def readable(text: str) -> str:
    """Return `text` in quotes, shortened, with control characters and broken UTF-8 escaped."""
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…({len(text):,} characters)"
    return "'" + _UNSEEN.sub(_escaped, shown) + "'"


def printable(text: str) -> str:
    """Return `text` with control characters and broken UTF-8 escaped; line breaks stay."""
    return _UNSEEN.sub(lambda found: "\n" if found[0] == "\n" else _escaped(found), text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
