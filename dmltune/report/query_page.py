"""The result of a query as one page with its pictures, in one file without references to others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dmltune.errors import UserError, printable, readable
from dmltune.report.pages import environment


def write_query_page(
    file: Path, queries: Sequence[Mapping[str, Any]], about: str, picture: Callable[[Path], str]
) -> None:
    """Write the page. `picture` gives a file as a data URI, "" for one that is gone."""
    shown = [
        {
            "name": _name(query["query"]),
            "picture": picture(Path(query["query"])),
            "neighbours": [
                {**found, "name": _name(found["path"]), "picture": picture(Path(found["path"]))}
                for found in query["neighbours"]
            ],
        }
        for query in queries
    ]
    html = environment().get_template("query.html.j2").render(queries=shown, about=about)
    try:
        file.write_text(printable(html), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--page: {readable(str(file))} cannot be written ({error.strerror}).") from None


def _name(path: Any) -> str:
    return printable(os.fspath(path))
