"""The templates of all pages. A page is one file without references to others."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dmltune.errors import UserError, printable
from dmltune.report import charts, formatting
from dmltune.report import check_sentences as say

FILE = "report.html"


@cache
def environment() -> Environment:
    """Return the only Jinja2 environment: every value is escaped, an unknown name is an error."""
    made = Environment(
        loader=PackageLoader("dmltune.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"metric": formatting.metric_name, "typeset": say.typeset}
    made.globals |= {"say": say, "formatting": formatting, "library": charts.library}
    return made


def write_html(template: str, path: Path, **values: Any) -> Path:
    """Fill a template and write it; a place that cannot be written is a UserError."""
    html = printable(environment().get_template(template).render(**values))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the page cannot be written to {path} ({error.strerror}). Choose another -o FILE."
        ) from None
    return path
