"""A check's page, written and read."""

from __future__ import annotations

import html.parser
from pathlib import Path
from typing import Any

from dmltune.check.document import CheckDocument
from dmltune.report.check_page import write_page

EMPTY = {"meta", "br", "hr"}


class Page(html.parser.HTMLParser):
    """The text of a page and its elements in order; all of them must be closed where they should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.parts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.parts.append(data)


def written(tree: dict[str, Any], folder: Path) -> Path:
    return write_page(CheckDocument.from_dict(tree), folder)


def page(tree: dict[str, Any], folder: Path) -> Page:
    return Page(written(tree, folder).read_text(encoding="utf-8"))
