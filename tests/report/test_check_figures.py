"""The figures of a check's page, and the classes that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from report.check_documents import document, histogram
from report.page_reader import Page, written

from dmltune.check.document import CheckDocument, DistanceHistogram
from dmltune.report import charts, check_figures, distance_charts
from dmltune.report.check_page_tables import gains_and_losses


def test_figures_are_specifications_that_vega_lite_accepts(tmp_path: Path) -> None:
    specs = specifications(written(document(), tmp_path))
    assert len(specs) == 5
    for spec in specs:
        assert spec["description"]
        compiled = vl_convert.vegalite_to_vega(spec, vl_version=charts.VERSION)
        assert any(part.get("values") for part in compiled["data"])


def specifications(path: Path) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    return [json.loads(text) for text in found]


def test_thousands_of_classes_and_many_models_stay_a_small_page(tmp_path: Path) -> None:
    tree = document(classes=11_316, repeats=10)
    path = written(tree, tmp_path)
    assert path.stat().st_size < 1_600_000
    assert "40 models" in Page(path.read_text(encoding="utf-8")).text  # folded away


def test_differences_of_classes_leave_out_what_is_not_known() -> None:
    tree = document(classes=4)
    tree["per_class"] |= {"winner": [0.5, None, 0.2, float("nan")], "baseline": [0.2, 0.1, 0.3, 0.1]}
    check = CheckDocument.from_dict(tree)
    gaps = check_figures.class_gaps(check, "winner")
    assert gaps == [(0, pytest.approx(0.3)), (2, pytest.approx(-0.1))]
    assert check_figures.class_gaps(check, "no such key") == []


def test_overlap_is_one_for_equal_and_zero_for_separate_distances() -> None:
    counts = tuple(histogram(0.4)["positive"])
    edges = tuple(histogram(0.4)["edges"])
    double = tuple(2 * count for count in counts)
    assert distance_charts.overlap(DistanceHistogram(edges, counts, double)) == pytest.approx(1)
    assert distance_charts.overlap(DistanceHistogram((0, 1, 2), (5, 0), (0, 7))) == 0
    assert distance_charts.overlap(DistanceHistogram((0, 1, 2), (5, 0), (0, 0))) == 0


def test_the_axis_of_distances_ends_at_the_last_bin_with_pairs() -> None:
    edges = (0.0, 0.5, 1.0, 1.5, 2.0)
    assert distance_charts.used(DistanceHistogram(edges, (9, 0, 0, 0), (5000, 50, 1, 0))) == 1.0
    assert distance_charts.used(DistanceHistogram(edges, (0,) * 4, (0,) * 4)) == 2.0


def test_only_losses_are_listed_as_losses(tmp_path: Path) -> None:
    tree = document(classes=6)
    tree["per_class"] |= {"baseline": [0.2] * 6, "winner": [0.3, 0.31, 0.32, 0.33, 0.2, 0.1]}
    check = CheckDocument.from_dict(tree)
    gaps = check_figures.class_gaps(check, "winner")
    sides = dict(gains_and_losses(check, check.configurations[0], gaps))
    assert [row[-1] for row in sides["Largest gains"].rows] == ["+13.0", "+12.0", "+11.0", "+10.0"]
    assert [row[-1] for row in sides["Largest losses"].rows] == ["−10.0"]


def test_bars_have_the_names_of_their_classes() -> None:
    chart = check_figures.class_differences(CheckDocument.from_dict(document(classes=12)), "winner")
    assert chart is not None
    bars = chart.spec["layer"][0]["encoding"]
    assert (bars["y"]["field"], len(bars["y"]["sort"])) == ("class", 12)
    many = check_figures.class_differences(CheckDocument.from_dict(document(classes=5000)), "winner")
    assert many is not None
    assert "class" in [each["field"] for each in many.spec["layer"][0]["encoding"]["tooltip"]]
    assert len(many.spec["data"]["values"]) < 400
