"""The pages of a search and of a check in Chromium: nothing overflows, everything is drawn, hover answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report.check_documents import document
from support.browser import chromium, needs_browser, opened
from support.large_search import write_large_search
from support.stores import new_store

from dmltune.check.document import CheckDocument
from dmltune.data.images import ImageSet
from dmltune.report.check_page import write_page
from dmltune.report.search_page import write_search_page
from dmltune.search.page_data import SearchPageData
from dmltune.search.stored import StoredSearches
from dmltune.train.page_gallery import gallery

pytestmark = needs_browser
SEEN = [(1280, "light"), (390, "dark")]
# the figures of which a legend ends right of the drawing, where it is cut off
LEGENDS_OUTSIDE = """[...document.querySelectorAll('figure .chart svg')].filter(svg => {
    const edge = svg.getBoundingClientRect().right + 1;
    const legends = [...svg.querySelectorAll('.role-legend text')];
    return legends.some(text => text.getBoundingClientRect().right > edge);
}).map(svg => svg.closest('figure').id)"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    pictures = [np.full((24, 24, 3), 20 * i, dtype=np.uint8) for i in range(12)]
    images = ImageSet(
        name="squares", part="test", labels_N=np.arange(12) // 3, class_names=("a", "b", "c", "d"),
        fingerprint="f", reader=lambda indices, side: [pictures[i] for i in indices],
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    shown = gallery(torch.randn(12, 4, generator=generator), images, range(12), "test", "Trial 3")
    edges = [0.0, 0.5, 1.0, 2.0]
    shown["distances"] = {
        "before": {"edges": edges, "positive": [4, 6, 2], "negative": [10, 30, 14]},
        "after": {"edges": edges, "positive": [9, 3, 0], "negative": [0, 24, 30]},
    }
    store = new_store(folder / "store")
    write_large_search(store, "large", 60)
    search = SearchPageData(StoredSearches(store).get("large"), shown)
    check = CheckDocument.from_dict(document(classes=20))
    return {
        "search": write_search_page(search, folder / "search.html"),
        "check": write_page(
            check, folder / "check.html", shown, "http://127.0.0.1:5000/#/experiments/1/runs/"
        ),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("name", ["search", "check"])
@pytest.mark.parametrize(("width", "scheme"), SEEN)
def test_a_page_is_whole_on_screen_and_phone(
    pages: dict[str, Path], browser: Any, name: str, width: int, scheme: str
) -> None:
    with opened(browser, pages[name], width, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        figures = page.locator("figure[data-chart]")
        assert figures.count() >= {"search": 12, "check": 5}[name]
        marks = "s => s.querySelectorAll('path, rect, line').length"
        assert min(page.evaluate(f"[...document.querySelectorAll('.chart svg')].map({marks})")) > 5
        assert page.evaluate(LEGENDS_OUTSIDE) == []
        assert page.evaluate("[...document.images].every(i => i.alt && i.naturalWidth)")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(18, 23, 29)" if scheme == "dark" else "rgb(255, 255, 255)")
        label = page.locator("#curves svg text, #classes svg text").first
        assert label.evaluate("e => getComputedStyle(e).fill") != ground
        assert page.seen == []


def test_pointing_at_a_trial_tells_its_settings(pages: dict[str, Path], browser: Any) -> None:
    with opened(browser, pages["search"], 1280, "light") as page:
        page.locator('#history svg path[aria-roledescription="point"]').last.hover(force=True)
        told = page.locator("#vg-tooltip-element.visible")
        told.wait_for()
        assert "lambda=" in told.inner_text()
        page.locator('#map svg path[aria-roledescription="point"]').first.hover(force=True)
        page.locator("#vg-tooltip-element.visible img").wait_for()


def test_the_slider_leaves_the_best_trials(pages: dict[str, Path], browser: Any) -> None:
    with opened(browser, pages["search"], 1280, "light") as page:
        lines = page.locator(
            '#parallel svg path[aria-roledescription="line mark container"], #parallel .mark-line path'
        )
        before = lines.count()
        slider = page.locator("#parallel input[type=range]")
        slider.focus()
        for _ in range(60):
            slider.press("ArrowLeft")
        page.wait_for_timeout(200)
        assert 1 < lines.count() < before


def test_figures_can_be_saved_with_the_keyboard(pages: dict[str, Path], browser: Any) -> None:
    with opened(browser, pages["check"], 1280, "light") as page:
        button = page.locator("#classes .save button").first
        button.focus()
        with page.expect_download() as download:
            button.press("Enter")
        assert download.value.suggested_filename == "classes.png"
        assert Path(download.value.path()).read_bytes()[:4] == b"\x89PNG"
