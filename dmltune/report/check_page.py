"""A check as one page, report.html: the verdict, what it rests on, how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmltune.report import check_figures as figures
from dmltune.report import check_page_tables as tables
from dmltune.report import check_sentences as say
from dmltune.report import formatting, gallery_page, pages
from dmltune.report.charts import Chart

if TYPE_CHECKING:
    from dmltune.check.document import CheckDocument

Gallery = Mapping[str, Any]


def write_page(document: CheckDocument, path: Path, gallery: Gallery | None = None, runs: str = "") -> Path:
    """Write the page to a file, or as report.html into a folder; the same document gives the same bytes.

    `runs` is the address of MLflow's pages of the runs, to which their ids are added.
    """
    main = say.main_of(document)
    compared = main is not None and main.key != document.baseline
    return pages.write_html(
        "check.html.j2",
        path / pages.FILE if path.is_dir() or not path.suffix else path,
        document=document,
        main=main,
        compared=compared,
        judgement=say.judge(document, main) if main else say.Judgement("unknown", ""),
        gaps=figures.class_gaps(document, main.key) if main and compared else [],
        dim=say.dim_of(document),
        runs=runs,
        gallery=gallery_page.gallery_of(gallery),
        map=gallery_page.embedding_map(gallery),
        figures=figures,
        tables=tables,
        text=_text,
    )


def figures_of(document: CheckDocument, gallery: Gallery | None) -> list[Chart]:
    """Return every figure of the page."""
    drawn = gallery_page.embedding_map(gallery)
    return [*figures.all_of(document, say.main_of(document)), *([drawn] if drawn else [])]


def _text(values: Mapping[str, Any]) -> str:
    return formatting.parameters(formatting.flat(values)) or "as in the space"
