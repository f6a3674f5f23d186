"""Chromium for the tests of pages. With DMLTUNE_SCREENSHOTS their pictures are stored in that folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or importlib.util.find_spec("playwright") is None,
    reason="needs Chromium (apt install chromium) and playwright (pip install playwright)",
)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(browser: Any, file: Path, width: int, scheme: str) -> Iterator[Any]:
    """Open a file without a network. What the console says and what is asked of others is in `page.seen`."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    page.seen = []
    page.on(
        "console", lambda text: page.seen.append(text.text) if text.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("request", lambda each: page.seen.append(each.url) if each.url.startswith("http") else None)
    page.goto(file.absolute().as_uri())
    for figure in page.locator("figure[data-chart]").all():
        figure.scroll_into_view_if_needed()
        figure.locator(".chart :is(svg, canvas)").first.wait_for()
    yield page
    if folder := os.environ.get("DMLTUNE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{file.stem}-{width}-{scheme}.png", full_page=True)
    context.close()
