from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from report.check_documents import document, gap, opening
from report.page_reader import Page, page, written

from dmltune.check.document import CheckDocument
from dmltune.report.check_page import write_page
from dmltune.report.check_page_tables import PageTable
from dmltune.report.check_table import check_table
from dmltune.report.pages import environment


def test_the_verdict_comes_before_every_table_and_figure(tmp_path: Path) -> None:
    path = written(document(), tmp_path / "check")
    text = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    verdict = text.index("The winner is better than the baseline.")
    assert verdict < text.index("+3.1 points, 95 % CI +1.2 to +5.0, p = 0.003") < text.index("<table")
    assert verdict < text.index("<figure")


def test_every_part_of_the_checkis_shown(tmp_path: Path) -> None:
    tree = document()
    shown = page(tree, tmp_path)
    for text in (
        "25.1 ± 0.8",
        "27.1 ± 0.4",
        "mean over 81 such combinations",
        "no difference found",
        "−1.0 to +1.8",
        "the best of 24 finished trials",
        "Largest gains",
        "Hardest confusions",
        "covering radius",
        "the two overlap by",
        "No figures of this study's test classes had been seen before",
        "ada@lab-3",
        "dmltune check birds --repeats 3",
        tree["fingerprint"],
        tree["commit"],
        "torch 2.15.0",
    ):
        assert text in shown.text, text
    for row in tree["configurations"]:
        assert row["digest"] in shown.text
        assert all(model["run_id"] in shown.text for model in row["models"])
    assert all(row["of"] in shown.text for row in tree["confusions"]["winner"])
    assert shown.elements.count("figure") == 5


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    shown = page(document(), tmp_path)
    assert not {"link", "img", "iframe", "object"} & set(shown.elements)
    assert not [value for name, value in shown.attributes if name in ("href", "src", "xlink:href")]
    text = re.sub("<script.*?</script>", "", (tmp_path / "report.html").read_text("utf-8"), flags=re.DOTALL)
    assert "url(" not in text
    assert "@import" not in text


def test_the_same_checkgives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (written(document(), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    tree = document(name="<b>x</b> & co")
    tree["per_class"]["classes"][:3] = ["<script>alert(1)</script>", "$\\alpha", "雪"]
    tree["per_class"]["winner"][:3] = [1.0, 1.0, 1.0]
    tree["configurations"][1]["labels"] = ["$_^{ point <i>"]
    tree["failed"] = {"winner-fold0-seed1000": "shape <3, 4>\nmore"}
    shown = page(tree, tmp_path)
    assert not {"b", "i"} & set(shown.elements)
    assert shown.elements.count("script") == 5 + 2  # figures, the library, and the code that draws
    for text in ("<script>alert(1)</script>", "$\\alpha", "雪", "$_^{ point <i>", "shape <3, 4>"):
        assert text in shown.text


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
    tree = document()
    tree["configurations"][0]["versus_baseline"] = versus
    shown = page(tree, tmp_path)
    assert headline in shown.text
    assert ("class", f"verdict {kind}") in shown.attributes


def test_a_second_opening_is_told_at_the_top_and_in_the_ledger(tmp_path: Path) -> None:
    earlier = opening(
        "2026-11-17T09:30:00+00:00", "evaluate", who="bob@desk", command="dmltune evaluate birds"
    )
    tree = document(again=True, openings=[earlier, opening("2026-11-18T17:03:21+00:00", "check")])
    text = page(tree, tmp_path).text
    top = text.index("had been opened for this study before (first on 2026-11-17 09:30 by bob@desk)")
    assert top < text.index("On the test classes")
    assert "Figures of this study's test classes had been seen before this check." in text
    assert text.index("dmltune evaluate birds") < text.rindex("dmltune check birds")


def test_a_table_shown_again_says_so(tmp_path: Path) -> None:
    entries = [opening("2026-11-18T17:03:21+00:00", kind) for kind in ("check", "shown again", "shown again")]
    assert "shown again 2 times" in page(document(openings=entries), tmp_path).text


def test_the_conventional_protocol_does_not_claim_unread_classes(tmp_path: Path) -> None:
    tree = document(warning="conventional protocol: the search chose its winner on the test classes")
    text = page(tree, tmp_path).text
    assert "the search chose its winner on the test classes" in text
    assert "has not read" not in text


def test_missing_parts_leave_no_heading(tmp_path: Path) -> None:
    tree = document(
        search_score=None,
        per_class=None,
        confusions={},
        distances={},
        openings=[],
        baseline=None,
        stopped=True,
    )
    for row in tree["configurations"]:
        row |= {"models": [], "single": {}, "ensemble": {}, "versus_baseline": None, "geometry": {}}
    shown = page(tree, tmp_path)
    assert "No model has finished" in shown.text
    for heading in ("Against the baseline", "Class by class", "Hardest confusions", "Shape of the embedding"):
        assert heading not in shown.text
    assert "figure" not in shown.elements


def test_a_check_that_stopped_before_it_measured_is_shown_too(tmp_path: Path) -> None:
    """What a session knows before its models are read."""
    later = ("configurations", "test_images", "test_classes", "queries_without_match", "search_score")
    later += ("per_class", "confusions", "distances")
    tree = {key: value for key, value in document(stopped=True).items() if key not in later}
    tree |= {"configurations": [], "models": 36}
    assert "No model has finished" in page(tree, tmp_path).text
    assert "stopped before its end: 0 of 36 models" in page(tree, tmp_path).text
    lines = [str(part) for part in check_table(CheckDocument.from_dict(tree))]
    assert lines[-1].startswith("No model has finished")


def test_one_model_each_is_shown_with_dashes(tmp_path: Path) -> None:
    tree = document(folds=1, repeats=1)
    for row in tree["configurations"]:
        for figures in (*row["single"].values(), *row["ensemble"].values()):
            figures |= {"low": None, "high": None}
        if row["versus_baseline"]:
            row["versus_baseline"] = gap(
                0.01, None, None, None, effect_size=None, fold_sd=None, seed_sd=float("nan"), wins=1.0
            )
    shown = page(tree, tmp_path)
    assert "Whether the winner differs from the baseline is not known." in shown.text
    assert "nan" not in shown.text.lower().split()


def test_a_broken_name_is_shown_escaped(tmp_path: Path) -> None:
    """Folder names may be no UTF-8 and hold control characters."""
    tree = document(name="a\x1b[31m")
    tree["per_class"]["classes"][0] = "gull\udcff"
    tree["per_class"]["winner"][0] = 1.0
    tree["configurations"][1]["labels"] = ["point\udcff\x07"]
    text = page(tree, tmp_path).text
    for part in ("a\\x1b[31m", "gull\\udcff", "point\\udcff\\x07"):
        assert part in text


def test_templates_escape_every_value_once_and_refuse_unknown_names() -> None:
    template = environment().from_string('{% from "macros.html.j2" import table_of %}{{ table_of(table) }}')
    text = template.render(table=PageTable(["a", "<b>"], [["1 < 2 & 3", Markup("<br>")]], range(1, 2)))
    assert '<td class="number" data-label="&lt;b&gt;"><br></td>' in text
    assert "1 &lt; 2 &amp; 3" in text
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nosuch }}").render()


def test_runs_are_links_when_their_address_is_known(tmp_path: Path) -> None:
    tree = document()
    path = write_page(
        CheckDocument.from_dict(tree), tmp_path, None, "http://127.0.0.1:5000/#/experiments/3/runs/"
    )
    links = [value for name, value in Page(path.read_text("utf-8")).attributes if name == "href"]
    ids = [model["run_id"] for row in tree["configurations"] for model in row["models"]]
    assert links == [f"http://127.0.0.1:5000/#/experiments/3/runs/{run}" for run in ids]


def test_a_check_of_two_untrained_networks_gives_no_verdict(tmp_path: Path) -> None:
    tree = document()
    for row in tree["configurations"]:
        if row["key"] != "reference":
            for model in row["models"]:
                model["step"] = 0
    shown = page(tree, tmp_path)
    assert "No verdict: the winner and the baseline are both untrained networks." in shown.text
    assert ("class", "verdict untrained") in shown.attributes
    assert "better than the baseline" not in shown.text
    assert shown.text.count("0 (untrained)") == 24
    table = "\n".join(str(part) for part in check_table(CheckDocument.from_dict(tree)))
    assert "no verdict: both are untrained networks" in table


def test_some_untrained_models_are_told_beside_the_verdict(tmp_path: Path) -> None:
    tree = document()
    tree["configurations"][2]["models"][0]["step"] = 0
    shown = page(tree, tmp_path)
    assert "baseline: 1 of 12 models untrained" in shown.text
    assert "The winner is better than the baseline." in shown.text


def test_own_images_are_called_so(tmp_path: Path) -> None:
    assert "trained on classes of your own images" in page(document(data="own"), tmp_path).text
