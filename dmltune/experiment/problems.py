"""How a broken rule is said: a Problem names the keys it concerns; who knows the file adds the line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dmltune.errors import nearest

Path = tuple[str, ...]


class Problem(Exception):
    """A rule that a value breaks. `paths` are the keys that take part, the most to blame first."""

    def __init__(self, message: str, *paths: Path) -> None:
        super().__init__(one_line(message))
        self.paths = paths


def one_line(text: str) -> str:
    return " ".join(text.split())


def show(value: Any, width: int = 80) -> str:
    """A value as it would be written in YAML, on one line and not longer than `width`."""
    text = one_line(_show(value))
    return text if len(text) <= width else text[: width - 1] + "…"


def _show(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_show(item) for item in value) + "]"
    if isinstance(value, str):
        return repr(value)
    return f"{value!r}"


def kind_of(value: Any) -> str:
    """What a reader would call the value: 'a list', 'the text 'x'', '8.0'."""
    if isinstance(value, Mapping):
        return f"the mapping {show(value)}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"the list {show(value)}"
    if isinstance(value, str):
        return f"the text {show(value)}"
    return "nothing (null)" if value is None else show(value)


def dotted(path: Iterable[str]) -> str:
    return ".".join(path)


def unknown(key: str, options: Iterable[str], section: str = "") -> str:
    """`unknown key 'lamda' in references; did you mean 'lambda'?`, or the known keys when none is close."""
    options = list(options)
    key = one_line(str(key))
    if len(key) > 60:
        key = key[:59] + "…"
    return (
        f"unknown key '{key}'"
        + (f" in {section}" if section else "")
        + near_or_list(key, options, "known keys")
    )


def near_or_list(word: str, options: Iterable[str], what: str = "known") -> str:
    """The nearest option when one is close, otherwise all of them when they are few enough to read."""
    options = sorted(options)
    guess = nearest(word, options) or nearest(word.lower().replace("-", "_"), options)
    if guess:
        return guess
    if not options:
        return "; it takes none"
    shown = ", ".join(options[:14]) + (", …" if len(options) > 14 else "")
    return f"; {what}: {shown}"


def number_remedy(value: Any, whole: bool) -> str:
    """What to write instead of a number that came in another form."""
    if isinstance(value, bool):
        return " Write a number, not true or false."
    if isinstance(value, float) and whole and value == value and value.is_integer() and abs(value) < 1e15:
        return f" Write {int(value)}."
    if isinstance(value, str):
        try:
            number = float(value.replace("_", ""))
        except ValueError:
            return ""
        if number != number or number in (float("inf"), float("-inf")):
            return ""
        if whole and number.is_integer() and abs(number) < 1e15:
            return f" Write {int(number)} without quotes."
        return "" if whole else f" Write {number!r} without quotes."
    return ""
