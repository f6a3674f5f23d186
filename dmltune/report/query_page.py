"""The result of a query as one page with its pictures, in one file without references to others."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from dmltune.errors import UserError, printable, readable
from dmltune.report.pages import environment

SIDE = 224  # pixels of the longer side of a picture


def write_query_page(file: Path, queries: Sequence[Mapping[str, Any]], about: str, upright: bool) -> None:
    """Write the page; a neighbour whose file is gone is shown without its picture."""
    shown = [
        {
            "name": _name(query["query"]),
            "picture": _picture(query["query"], upright),
            "neighbours": [
                {**found, "name": _name(found["path"]), "picture": _picture(found["path"], upright)}
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


def _picture(path: Any, upright: bool) -> str:
    """Return a small JPEG as a data URI, "" when the file cannot be read."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (SIDE, SIDE))
            small = (ImageOps.exif_transpose(image) if upright else image).convert("RGB")
            small.thumbnail((SIDE, SIDE))
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=82)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
