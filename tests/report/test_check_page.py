from __future__ import annotations

import html.parser
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from report.check_documents import document, gap, histogram, opening

from dmltune.report import check_figures
from dmltune.report.check_page import write_page
from dmltune.report.check_table import check_table
from dmltune.report.markup import Markup, element, joined, table

EMPTY = {"meta", "br", "hr"}


class Page(html.parser.HTMLParser):
    """The words of a page, its elements in order, and whether every one is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.said).split())

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
        if "style" not in self.open:
            self.said.append(data)


def page(found: dict[str, Any], folder: Path) -> Page:
    return Page(write_page(found, folder).read_text(encoding="utf-8"))


def test_the_verdict_comes_before_every_table_and_figure(tmp_path: Path) -> None:
    path = write_page(document(), tmp_path / "check")
    text = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    verdict = text.index("The winner is better than the baseline.")
    assert verdict < text.index("+3.1 points, 95 % CI +1.2 to +5.0, p = 0.003") < text.index("<table")
    assert verdict < text.index("<svg")


def test_every_part_of_the_document_is_there(tmp_path: Path) -> None:
    found = document()
    shown = page(found, tmp_path)
    for words in (
        "25.1 ± 0.8",
        "27.1 ± 0.4",
        "over 81 such collections",
        "no difference found",
        "−1.0 to +1.8",
        "the best of 24 finished trials",
        "Largest gains",
        "Hardest confusions",
        "covering radius",
        "the two overlap by",
        "Nobody had seen figures of this study's test classes before",
        "ada@lab-3",
        "dmltune check birds --repeats 3",
        found["fingerprint"],
        found["commit"],
        "torch 2.15.0",
    ):
        assert words in shown.words, words
    for row in found["configurations"]:
        assert row["digest"] in shown.words
        assert all(model["run_id"] in shown.words for model in row["models"])
    assert all(row["of"] in shown.words for row in found["confusions"]["winner"])
    assert shown.elements.count("svg") == 4


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    shown = page(document(), tmp_path)
    assert not {"script", "link", "img", "iframe", "object"} & set(shown.elements)
    refers = [value or "" for name, value in shown.attributes if name in ("href", "src", "xlink:href")]
    assert all(value.startswith("#") for value in refers)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(place.startswith("#") for place in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text


def test_the_same_document_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_page(document(), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_figures_are_whole_svg_elements_whose_text_is_text(tmp_path: Path) -> None:
    text = write_page(document(), tmp_path).read_text(encoding="utf-8")
    for svg in re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL):
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label")
        assert "".join(root.itertext()).strip()


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    found = document(name="<b>x</b> & co")
    found["per_class"]["classes"][:3] = ["<script>alert(1)</script>", "$\\alpha", "雪"]
    found["per_class"]["winner"][:3] = [1.0, 1.0, 1.0]
    found["configurations"][1]["labels"] = ["$_^{ point <i>"]
    found["failed"] = {"winner-fold0-seed1000": "shape <3, 4>\nmore"}
    shown = page(found, tmp_path)
    assert not {"script", "b", "i"} & set(shown.elements)
    for words in ("<script>alert(1)</script>", "$\\alpha", "雪", "$_^{ point <i>", "shape <3, 4>"):
        assert words in shown.words


@pytest.mark.parametrize(
    ("versus", "kind", "headline"),
    [
        (gap(-0.03, -0.05, -0.01, 0.004), "worse", "The winner is worse than the baseline."),
        (gap(0.01, -0.02, 0.04, 0.4), "none", "No difference found between the winner and the baseline."),
        (
            gap(0.01, None, None, None),
            "unknown",
            "Whether the winner differs from the baseline is not known.",
        ),
    ],
)
def test_each_finding_has_its_headline_and_its_colour(
    tmp_path: Path, versus: dict[str, Any], kind: str, headline: str
) -> None:
    found = document()
    found["configurations"][0]["versus_baseline"] = versus
    shown = page(found, tmp_path)
    assert headline in shown.words
    assert ("class", f"verdict {kind}") in shown.attributes


def test_a_second_opening_is_told_at_the_top_and_in_the_ledger(tmp_path: Path) -> None:
    earlier = opening(
        "2026-11-17T09:30:00+00:00", "evaluate", who="bob@desk", command="dmltune evaluate birds"
    )
    found = document(again=True, openings=[earlier, opening("2026-11-18T17:03:21+00:00", "check")])
    words = page(found, tmp_path).words
    top = words.index("had been opened for this study before (first on 2026-11-17 09:30 by bob@desk)")
    assert top < words.index("On the test classes")
    assert "Figures of this study's test classes had been seen before this check." in words
    assert words.index("dmltune evaluate birds") < words.rindex("dmltune check birds")


def test_a_table_shown_again_says_so(tmp_path: Path) -> None:
    entries = [opening("2026-11-18T17:03:21+00:00", kind) for kind in ("check", "shown again", "shown again")]
    assert "looked at again 2 times" in page(document(openings=entries), tmp_path).words


def test_the_conventional_protocol_does_not_claim_unread_classes(tmp_path: Path) -> None:
    found = document(warning="conventional protocol: the search chose its winner on the test classes")
    words = page(found, tmp_path).words
    assert "the search chose its winner on the test classes" in words
    assert "has not read" not in words


def test_parts_that_are_not_there_leave_no_heading(tmp_path: Path) -> None:
    found = document(
        search_score=None, per_class={}, confusions={}, distances={}, openings=[], baseline=None, stopped=True
    )
    for row in found["configurations"]:
        row |= {"models": [], "single": {}, "ensemble": {}, "versus_baseline": None, "geometry": {}}
    shown = page(found, tmp_path)
    assert "No model has finished" in shown.words
    for heading in ("Against the baseline", "Class by class", "Hardest confusions", "Shape of the embedding"):
        assert heading not in shown.words
    assert "svg" not in shown.elements


def test_a_check_that_stopped_before_it_measured_is_shown_too(tmp_path: Path) -> None:
    """What a session knows before its models are read."""
    later = ("configurations", "test_images", "test_classes", "queries_without_match", "search_score")
    later += ("per_class", "confusions", "distances")
    found = {key: value for key, value in document(stopped=True).items() if key not in later}
    found |= {"configurations": [], "models": 36}
    assert "No model has finished" in page(found, tmp_path).words
    assert "stopped before its end: 0 of 36 models" in page(found, tmp_path).words
    lines = [str(part) for part in check_table(found)]
    assert lines[-1].startswith("No model has finished")


def test_one_model_each_is_shown_with_dashes(tmp_path: Path) -> None:
    found = document(folds=1, repeats=1)
    for row in found["configurations"]:
        for figures in (*row["single"].values(), *row["ensemble"].values()):
            figures |= {"low": None, "high": None}
        if row["versus_baseline"]:
            row["versus_baseline"] = gap(
                0.01, None, None, None, effect_size=None, fold_sd=None, seed_sd=float("nan"), wins=1.0
            )
    shown = page(found, tmp_path)
    assert "Whether the winner differs from the baseline is not known." in shown.words
    assert "nan" not in shown.words.lower().split()


def test_thousands_of_classes_and_many_models_stay_a_small_page(tmp_path: Path) -> None:
    found = document(classes=11_316, repeats=10)
    path = write_page(found, tmp_path)
    assert path.stat().st_size < 400_000
    assert "40 models" in Page(path.read_text(encoding="utf-8")).words  # folded away


def test_differences_of_classes_leave_out_what_is_not_known() -> None:
    found = document(classes=4)
    found["per_class"] |= {"winner": [0.5, None, 0.2, float("nan")], "baseline": [0.2, 0.1, 0.3, 0.1]}
    assert check_figures.class_gaps(found, "winner") == [(0, pytest.approx(0.3)), (2, pytest.approx(-0.1))]
    assert check_figures.class_gaps(found, "nobody") == []


def test_overlap_is_one_for_equal_and_zero_for_separate_distances() -> None:
    one = histogram(0.4)
    apart = {"edges": [0, 1, 2], "positive": [5, 0], "negative": [0, 7]}
    assert check_figures.overlap({**one, "negative": [2 * n for n in one["positive"]]}) == pytest.approx(1)
    assert check_figures.overlap(apart) == 0
    assert check_figures.overlap({**apart, "negative": [0, 0]}) == 0


def test_the_axis_of_distances_ends_where_nothing_is_left_to_see() -> None:
    edges = [0.0, 0.5, 1.0, 1.5, 2.0]
    assert check_figures.used({"edges": edges, "positive": [9, 0, 0, 0], "negative": [5000, 50, 1, 0]}) == 1.0
    assert check_figures.used({"edges": edges, "positive": [0] * 4, "negative": [0] * 4}) == 2.0


def test_markup_escapes_once() -> None:
    inner = element("b", "1 < 2 & 3", title='"quoted"')
    assert inner == '<b title="&quot;quoted&quot;">1 &lt; 2 &amp; 3</b>'
    assert element("p", inner, None, ["x<", Markup("<br>")]) == f"<p>{inner}x&lt;<br></p>"
    assert joined(None, []) == ""
    assert '<td class="number" data-label="b">2</td>' in table(["a", "b"], [["1", "2"]], numbers=[1])
