"""Lines and tables for a terminal of 80 columns.

Values of users and files pass through `line` or `lines`, which escape control characters and ignore rich's
markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dmltune.errors import printable
from dmltune.report.formatting import first_line

WIDTH = 80
MOST_FAILURES = 5


def line(text: str, style: str = "", **options: Any) -> Text:
    """Return one line, or one cell of a table."""
    return Text(printable(text), style=style, **options)


def lines(text: str, style: str = "", first: str = "", rest: str = "") -> list[Text]:
    """Return `text` in lines of at most 80 columns; `first` and `rest` indent them."""
    return [Text(part, style=style) for part in wrapped(text, first, rest)]


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Return the lines of `text`, broken between words only where a word fits a line."""
    return textwrap.wrap(
        printable(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def failure_lines(failures: Mapping[str, str], others: str) -> list[Text]:
    """Return a line for each of the first failures; `others` says where the rest can be read."""
    shown = list(failures.items())[:MOST_FAILURES]
    parts = [line(f"{name} failed: {first_line(reason)}", "red") for name, reason in shown]
    if hidden := len(failures) - len(shown):
        parts.append(line(f"… and {hidden} more; {others}"))
    return parts


def grid(**options: Any) -> Table:
    """Return a table without lines."""
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", **options)
