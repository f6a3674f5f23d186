from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.large_search import write_large_search
from support.stored_searches import WrittenTrial, point, reference, repeat, write_search
from support.stores import new_store

from dmltune.report import course_charts, parameter_charts, search_charts
from dmltune.report.charts import json_text, write_charts
from dmltune.report.search_page import (
    commands,
    members_table,
    scores_table,
    sections,
    verdict,
    write_search_page,
)
from dmltune.search.page_data import SearchPageData, ended_at
from dmltune.search.stored import StoredSearches
from dmltune.store import Store

BASELINE = WrittenTrial("baseline", {0: 0.1, 10: 0.2, 20: 0.25})
OUTCOME: dict[str, Any] = {
    "winner": 2,
    "winner_set": [2, 3],
    "noise": 0.02,
    "corrected": {"mean": 0.42, "low": 0.38, "high": 0.46},
    "lead": {"mean": 0.17, "low": 0.12, "high": 0.22},
    "lead_is_noise": False,
}


def data_of(store: Store, name: str, *trials: WrittenTrial, outcome: Any = OUTCOME) -> SearchPageData:
    write_search(store, name, trials, outcome=outcome)
    return SearchPageData(StoredSearches(store).get(name))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return new_store(tmp_path_factory.mktemp("searches"))


@pytest.fixture(scope="module")
def data(store: Store) -> SearchPageData:
    trials = (reference(0.3), BASELINE, point(0.45, proxies=2), point(0.44, proxies=5), repeat(0.43, 1, of=2))
    return data_of(store, "small", *trials)


def test_the_verdict_is_one_sentence_with_its_figures(data: SearchPageData) -> None:
    kind, headline, figures = verdict(data)
    assert (kind, headline) == ("better", "Trial 2 is better than the baseline, by more than noise.")
    assert "+17.0 (+12.0 to +22.0) points" in figures
    assert "42.0 (38.0 to 46.0)" in figures


@pytest.mark.parametrize(
    ("name", "changes", "kind", "words"),
    [
        ("noise", {"lead_is_noise": True}, "none", "may be noise"),
        ("unknown", {"lead": None, "noise": None}, "unknown", "is not known"),
        ("worse", {"lead": {"mean": -0.1, "low": -0.2, "high": -0.05}}, "worse", "The baseline is better"),
    ],
)
def test_each_finding_has_its_sentence(
    store: Store, name: str, changes: dict[str, Any], kind: str, words: str
) -> None:
    trials = (reference(0.3), BASELINE, point(0.45))
    found = data_of(store, name, *trials, outcome=OUTCOME | changes)
    assert verdict(found)[0] == kind
    assert words in verdict(found)[1]


def test_a_winner_that_is_the_untrained_network_is_no_winner(store: Store, tmp_path: Path) -> None:
    flat = WrittenTrial("reference", {0: 0.5, 10: 0.2, 20: 0.25}, point(0).values)
    found = data_of(store, "flat", flat, WrittenTrial("baseline", {0: 0.5, 20: 0.3}), outcome=None)
    assert found.winner is not None
    assert found.winner.untrained
    assert verdict(found)[:2] == ("unknown", "No trial is better than the untrained network (MAP@R 50.0 %).")
    text = write_search_page(found, tmp_path / "flat.html").read_text("utf-8")
    assert text.count("best before its first step: an untrained network") == 3
    assert "importances need at least 6 ended trials" in text


def test_tables_have_interval_lead_and_winner_set(data: SearchPageData) -> None:
    rows = {str(getattr(row[0], "text", row[0])): row for row in scores_table(data).rows}
    assert rows["winner"][1:4] == ["2", "45.0", "+20.0"]
    assert rows["winner"][4].text == "42.0 (38.0 to 46.0)"  # type: ignore[union-attr]
    assert rows["untrained network"][2:4] == ["10.0", "-15.0"]
    members = members_table(data)
    assert members is not None
    assert [row[0].text for row in members.rows] == ["trial 3"]  # type: ignore[union-attr]


def test_the_interval_of_a_configuration_is_students_with_the_pooled_noise(data: SearchPageData) -> None:
    """Two trainings of one configuration: s = |a − b|/√2 with 1 degree of freedom, t = 12.706."""
    found = data.scores_of(data.winner)
    assert found is not None
    assert found.interval is not None
    assert found.mean == pytest.approx(0.44)
    assert found.interval.high - found.mean == pytest.approx(12.706 * (0.02 / 2**0.5) / 2**0.5, rel=1e-3)


def test_an_interval_of_shares_stays_between_0_and_100(store: Store) -> None:
    trials = (reference(0.13), BASELINE, point(0.12, proxies=2), repeat(0.3, 1, of=2))
    data = data_of(store, "wide", *trials)
    found = data.scores_of(data.reference)
    assert found is not None
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (0, 1)


def test_the_best_so_far_is_of_points_and_not_of_the_baseline(store: Store) -> None:
    data = data_of(store, "strong", reference(0.1), BASELINE, point(0.2, proxies=2), point(0.15, proxies=4))
    chart = search_charts.history(data)
    assert chart is not None
    steps = chart.spec["layer"][0]["data"]["values"]
    assert [(step["trial"], step["best"]) for step in steps] == [(0, 10.0), (2, 20.0), (3, 20.0)]


def test_a_whole_number_has_whole_ticks_and_lines_are_seen_on_dark_pages() -> None:
    assert parameter_charts.numeric_axis([4, 6, 5])["axis"]["values"] == [4, 5, 6]
    assert "values" not in parameter_charts.numeric_axis([4, 64])["axis"]
    spec = parameter_charts.parallel_spec([], [], ["a"], 1, "MAP@R %")
    scheme = spec["layer"][0]["encoding"]["color"]["scale"]["scheme"]
    assert scheme["extent"][0] >= 0.25  # the darkest colours of viridis are those of a dark page


def test_the_next_commands_are_those_that_work(store: Store, data: SearchPageData) -> None:
    assert [text.split()[1] for text, _ in commands(data)] == [
        *("check", "evaluate", "export-config", "resume", "ui")
    ]
    write_search(store, "begun", [BASELINE], state=None, planned=9)
    begun = SearchPageData(StoredSearches(store).get("begun"))
    assert [text.split()[1] for text, _ in commands(begun)] == ["resume", "ui"]


def test_a_page_without_data_and_model_says_so_and_needs_nothing_else(
    data: SearchPageData, tmp_path: Path
) -> None:
    text = write_search_page(data, tmp_path / "page.html").read_text("utf-8")
    assert "No pictures of what is retrieved" in text
    plain = re.sub("<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", plain)
    assert "references: {name: ccp, proxies: 2" in plain


def test_names_cannot_end_a_script_element() -> None:
    text = json_text({"class": "</script><b>&"})
    assert not set("<>&") & set(text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"score": float("nan")})


def test_figures_are_written_for_print(data: SearchPageData, tmp_path: Path) -> None:
    files = write_charts(sections(data)["result"][:1], tmp_path / "figures")
    starts = {path.suffix: path.read_bytes()[:5] for path in files}
    assert starts[".pdf"] == b"%PDF-"
    assert starts[".png"] == b"\x89PNG\r"
    assert starts[".svg"] == b"<svg "


def test_trials_at_the_same_time_are_in_other_lanes() -> None:
    spans = [(0.0, 4.0), (1.0, 2.0), (2.0, 3.0), (3.5, 5.0), (4.0, 6.0)]
    assert course_charts.lanes(spans) == [0, 1, 1, 1, 0]


def test_a_projection_has_ended_where_their_number_has_grown() -> None:
    assert ended_at({"0": 0, "10": 1, "20": 1, "100": 3}) == (10, 100)
    assert ended_at({}) == ()


def test_a_search_of_2000_trials_has_a_small_page_quickly(store: Store, tmp_path: Path) -> None:
    write_large_search(store, "large", 2000)
    page = tmp_path / "large.html"
    words = [sys.executable, "-m", "dmltune", "report", "large", "--store", str(store.root), "-o", str(page)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10  # also on a busy machine
    assert page.stat().st_size < 5_000_000
    assert "401 of 1999 trials" in page.read_text("utf-8")


def test_a_page_without_pictures_loads_neither_torch_nor_all_statistics() -> None:
    """They take seconds, which every `dmltune best`, `runs` and `compare` would wait for too."""
    code = "import sys, dmltune.search.reporting; print({'torch', 'scipy.stats', 'ray'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown == "set()\n"


def test_a_mean_in_a_figure_is_rounded_like_the_one_in_the_table() -> None:
    """35.247 % is 35.2 in the table; rounded to 35.25 for its place, the browser would write 35.3."""
    assert search_charts.shown(0.35247) == {"mean": 35.25, "text": "35.2"}


def test_the_page_says_where_the_configuration_stands(data: SearchPageData, tmp_path: Path) -> None:
    html = write_search_page(data, tmp_path / "page.html").read_text("utf-8")
    assert html.index('id="configuration"') < html.index("the configuration above as a file")
    assert "configuration below" not in html
