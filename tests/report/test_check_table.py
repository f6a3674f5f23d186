from __future__ import annotations

import io
from typing import Any

import pytest
from report.check_documents import document, gap
from rich.console import Console

from dmltune.check.document import CheckDocument
from dmltune.cli.output import Output
from dmltune.report import check_sentences
from dmltune.report.check_table import check_table


def printed(tree: dict[str, Any]) -> str:
    stream = io.StringIO()
    Output("table", stream).show(*check_table(CheckDocument.from_dict(tree)))
    return stream.getvalue()


def lines_of(tree: dict[str, Any]) -> list[str]:
    return [" ".join(line.split()) for line in printed(tree).splitlines()]


def with_gap(versus: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    tree = document(**changes)
    tree["configurations"][0]["versus_baseline"] = versus
    return tree


def test_every_configuration_has_its_scores_and_its_verdict_with_the_figures() -> None:
    lines = lines_of(document())
    assert "winner 12/12 25.1 24.3 – 25.9 27.1 52.1" in lines
    assert "winner lambda=1.23e-5 proxies=16 pool_size=24" in lines
    assert "better than the baseline: +3.1 points, 95 % CI +1.2 to +5.0, p = 0.003" in lines
    assert "no difference found: +0.4 points, 95 % CI -1.0 to +1.8, p = 0.41" in lines
    assert "baseline references=batch" in lines
    assert any("fair protocol, 4 folds × 3 repeats" in line for line in lines)


@pytest.mark.parametrize(
    ("versus", "kind"),
    [
        (gap(0.03, 0.01, 0.05, 0.004), "better"),
        (gap(-0.03, -0.05, -0.01, 0.004), "worse"),
        (gap(0.03, 0.01, 0.05, 0.02, p_holm=0.06), "none"),  # better before Holm's correction
        (gap(0.03, -0.001, 0.05, 0.04), "none"),  # the interval disagrees with the p-value
        (gap(0.0, 0.0, 0.0, 1.0), "none"),
        (gap(0.03, None, None, None), "unknown"),
        (gap(0.03, float("nan"), float("nan"), float("nan")), "unknown"),
        (gap(0.03, 0.01, 0.05, 0.004, models=1), "unknown"),  # its interval is about other classes alone
        (None, "unknown"),
    ],
)
def test_better_or_worse_is_said_only_when_interval_and_corrected_p_value_agree(
    versus: dict[str, Any] | None, kind: str
) -> None:
    tree = with_gap(versus)
    check = CheckDocument.from_dict(tree)
    assert check_sentences.judge(check, check.configurations[0]).kind == kind


def test_significant_is_never_said() -> None:
    assert "significant" not in printed(document())


def test_a_corrected_p_value_says_so() -> None:
    assert "p = 0.040 (Holm)" in printed(with_gap(gap(0.03, 0.01, 0.05, 0.02, p_holm=0.04)))
    assert "p < 0.001" in printed(with_gap(gap(0.03, 0.01, 0.05, 1e-6)))


def test_a_narrow_interval_has_a_second_digit() -> None:
    assert "+0.21 points, 95 % CI +0.04 to +0.38" in printed(with_gap(gap(0.0021, 0.0004, 0.0038, 0.02)))


def test_one_model_each_shows_dashes_and_says_that_there_are_too_few_models() -> None:
    tree = with_gap(gap(0.012, None, None, None), folds=1, repeats=1)
    for row in tree["configurations"]:
        row["ensemble"] = {}
        for figures in row["single"].values():
            figures.update(low=None, high=None, sd=None, df=0)
    lines = lines_of(tree)
    assert "winner 1/1 25.1 – – 52.1" in lines
    assert "too few models to tell the difference from chance: +1.2 points" in lines
    assert any("1 fold × 1 repeat" in line for line in lines)
    assert lines[-1].endswith("intervals cover other classes only.")


@pytest.mark.parametrize(
    ("folds", "repeats", "text"),
    [
        (4, 1, "cover other folds, seeds and classes."),
        (1, 3, "cover other seeds and classes, not other folds."),
        (1, 1, "cover other classes only."),
    ],
)
def test_it_says_what_the_intervals_do_not_cover(folds: int, repeats: int, text: str) -> None:
    assert text in " ".join(printed(document(folds=folds, repeats=repeats)).split())


def test_what_stopped_failed_or_was_seen_before_stands_above_the_figures() -> None:
    failed = {f"winner-fold{fold}-seed1000": "the loss is NaN\nat step 30" for fold in range(7)}
    tree = document(stopped=True, again=True, failed=failed, warning="conventional protocol: …")
    text = " ".join(printed(tree).split())
    head, _, tail = text.partition("MAP@R %")
    assert "stopped before its end: 36 of 36 models" in head
    assert "7 of 36 models failed" in head
    assert "had been opened for this study before (first on 2026-11-18 17:03 by ada@lab-3)" in head
    assert "conventional protocol" in head
    assert "winner-fold0-seed1000 failed: the loss is NaN" in tail
    assert "at step 30" not in tail
    assert "… and 2 more" in tail


def test_merged_configurations_have_both_names_and_a_winner_may_be_the_baseline() -> None:
    tree = document()
    tree["configurations"][0]["labels"] = ["winner", "reference point"]
    assert "winner = reference point 12/12" in " ".join(printed(tree).split())
    merged = document(baseline="winner")
    merged["configurations"][0] |= {"labels": ["winner", "baseline"], "versus_baseline": None}
    assert check_sentences.headline(CheckDocument.from_dict(merged)).startswith(
        "The search found nothing better than the baseline"
    )


def test_the_score_of_the_search_is_shown_without_its_luck() -> None:
    text = " ".join(printed(document()).split())
    assert "had 26.1 % MAP@R on the validation classes, the best of 24 finished trials" in text
    assert "about 25.5 %" in text
    one = {"metric": "map_at_r", "observed": 0.26, "corrected": None, "bias": None, "noise_sd": None, "n": 1}
    assert "of 1 finished trial." in " ".join(printed(document(search_score=one)).split())
    assert "In the search" not in printed(document(search_score=None))


def test_a_check_without_a_finished_model_is_shown_too() -> None:
    tree = document(stopped=True, search_score=None)
    for row in tree["configurations"]:
        row |= {"models": [], "single": {}, "ensemble": {}, "versus_baseline": None, "geometry": {}}
    assert "winner 0/12 – – – –" in lines_of(tree)
    assert check_sentences.headline(CheckDocument.from_dict(tree)).startswith("No model has finished")


@pytest.mark.parametrize("classes", [3, 11_316])
def test_no_line_is_wider_than_80_columns(classes: int) -> None:
    tree = document(
        classes=classes,
        name="a-study-with-quite-a-long-name",
        space_name="stanford-online-products-ccp",
        stopped=True,
        again=True,
        queries_without_match=12,
        test_images=60_502,
    )
    tree["configurations"][0]["labels"] = ["winner", "reference point", "trial 12"]
    tree["configurations"][0]["values"] |= {f"optimizer.option_{letter}": 0.123456 for letter in "abcdef"}
    tree["configurations"][0]["versus_baseline"] = gap(0.131, 0.112, 0.150, 0.021, p_holm=0.042)
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(*check_table(CheckDocument.from_dict(tree)), sep="\n")
    assert max(map(len, captured.get().splitlines())) <= 80
