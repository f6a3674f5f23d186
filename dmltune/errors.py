"""What a user can put right: one clear line (rule, value, remedy), shown without a traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Bad input. The message is one line that says the rule, the value and the remedy."""


def nearest(word: str, options: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest option, or nothing when none is close."""
    close = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
