"""A check as one page, report.html: the verdict, what it rests on, how it was made.

The page is one file without references to others. Jinja2 fills the files of `templates/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from dmltune.errors import printable
from dmltune.report import check_figures as figures
from dmltune.report import check_page_tables as tables
from dmltune.report import check_sentences as say
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.check.document import CheckDocument

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
    made.filters |= {"metric": formatting.metric_name, "typeset": say.typeset, "text": _text}
    made.globals |= {"say": say, "tables": tables, "figures": figures}
    return made


def write_page(document: CheckDocument, folder: Path) -> Path:
    """Write `folder`/report.html; the same document gives the same bytes."""
    main = say.main_of(document)
    compared = main is not None and main.key != document.baseline
    template = environment().get_template("check.html.j2")
    html = template.render(
        document=document,
        main=main,
        compared=compared,
        judgement=say.judge(document, main) if main else say.Judgement("unknown", ""),
        gaps=figures.class_gaps(document, main.key) if main and compared else [],
        dim=say.dim_of(document),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(printable(html), encoding="utf-8")
    return path


def _text(values: Mapping[str, Any]) -> str:
    return formatting.parameters(formatting.flat(values)) or "as in the space"
