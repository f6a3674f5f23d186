"""All checks as one table: columns, marks, what every cell has."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats
from support.checked_documents import Scores, checked, configuration, grid

from dmltune.errors import UserError
from dmltune.tables.finished_checks import FinishedCheck
from dmltune.tables.overview import OverviewCell, document, overview, p_value, ranked


def noisy(centre: float, seed: int, sd: float = 0.004, repeats: int = 3) -> Scores:
    rng = random.Random(seed)
    return {pair: centre + rng.gauss(0, sd) for pair in grid(centre, repeats=repeats)}


def candidate(scores: Scores) -> tuple[Scores, float]:
    return scores, float(np.mean(list(scores.values())))


def marks(cells: list[OverviewCell]) -> dict[str, str]:
    return {cell.row: cell.mark for cell in cells}


def birds(*centres: float, **more: object) -> FinishedCheck:
    keys = ("winner", "reference", "baseline")
    rows = [
        configuration(key, noisy(c, seed)) for seed, (key, c) in enumerate(zip(keys, centres, strict=False))
    ]
    return checked("birds-check", *rows, **more)


def test_best_and_second_are_marked_where_both_gaps_are_more_than_chance() -> None:
    found = overview([birds(0.30, 0.27, 0.22)])
    assert marks(found) == {"ccp winner": "best", "ccp reference": "second", "ccp baseline": ""}
    by_row = {cell.row: cell for cell in found}
    assert 0 < by_row["ccp winner"].p_next < 0.05  # type: ignore[operator]
    assert by_row["ccp baseline"].p_next is None  # it is the last


def test_of_two_that_cannot_be_told_apart_none_is_marked_however_far_the_third_is() -> None:
    found = overview([birds(0.3001, 0.3000, 0.22)])
    assert set(marks(found).values()) == {""}


def test_of_two_configurations_only_the_best_can_be_marked() -> None:
    assert marks(overview([birds(0.30, 0.22)])) == {"ccp winner": "best", "ccp reference": ""}


def test_equal_configurations_are_marked_in_no_more_than_a_twentieth_of_tables() -> None:
    """100 tables of two equal rows: 5 expected; more than 11 would happen in 0.4 % of such tests."""
    wrong = sum(
        bool(ranked([candidate(noisy(0.3, 2 * n)), candidate(noisy(0.3, 2 * n + 1))])[0].mark)
        for n in range(100)
    )
    assert wrong <= 11


def test_models_that_share_no_seed_are_compared_unpaired_as_welch_does() -> None:
    ours = {(0, seed): random.Random(seed).gauss(0.300, 0.004) for seed in range(9)}
    base = {(0, seed): random.Random(seed).gauss(0.295, 0.009) for seed in range(50, 57)}
    expected = stats.ttest_ind(list(ours.values()), list(base.values()), equal_var=False).pvalue
    assert p_value(ours, base) == pytest.approx(expected)
    places = ranked([candidate(base), candidate(ours)])
    assert [place.index for place in places] == [1, 0]
    assert places[0].p_next == pytest.approx(expected)


def test_a_common_shift_of_folds_does_not_hide_a_difference_between_paired_models() -> None:
    shift = {0: -0.05, 1: 0.0, 2: 0.03, 3: 0.06}
    ours = {pair: score + shift[pair[0]] for pair, score in noisy(0.300, 3, sd=0.001).items()}
    base = {pair: score + shift[pair[0]] for pair, score in noisy(0.290, 4, sd=0.001).items()}
    assert ranked([candidate(ours), candidate(base)])[0].mark == "best"
    unpaired = stats.ttest_ind(list(ours.values()), list(base.values()), equal_var=False).pvalue
    assert unpaired > 0.05


def test_single_models_are_ranked_and_never_marked() -> None:
    one, other = {(0, 1000): 0.5}, {(0, 1000): 0.1}
    places = ranked([candidate(other), candidate(one)])
    assert [(place.index, place.mark, place.p_next) for place in places] == [(1, "", None), (0, "", None)]


def test_equal_scores_of_all_seeds_mark_nothing() -> None:
    ours = grid(0.5)
    base = {(fold, seed + 50): score for (fold, seed), score in grid(0.1).items()}
    assert p_value(ours, base) is None
    assert [place.mark for place in ranked([candidate(ours), candidate(base)])] == ["", ""]


def test_searches_of_one_method_share_a_row_and_data_sets_are_columns() -> None:
    cars = birds(0.4, 0.35, 0.3, data="cars196", space_name="cars-ccp", fingerprint="aaaa")
    found = overview([birds(0.30, 0.27, 0.22), FinishedCheck("cars-check", "parent-of-cars", cars.document)])
    made = document(found)
    assert made["rows"] == ["ccp winner", "ccp reference", "ccp baseline"]
    assert [column["title"] for column in made["columns"]] == ["cub", "cars196"]
    assert len(made["cells"]) == 6


def test_rows_of_one_name_on_one_data_set_get_the_name_of_their_check() -> None:
    other = FinishedCheck("again-check", "parent-of-again", birds(0.31, 0.2).document)
    made = document(overview([birds(0.30, 0.27), other]))
    assert set(made["rows"]) == {
        f"ccp {role} · {name}" for role in ("winner", "reference") for name in ("birds-check", "again-check")
    }


def test_other_classes_or_another_protocol_are_another_column_and_conventional_has_a_warning() -> None:
    same = birds(0.3, 0.2)
    less = FinishedCheck("less", "parent-of-less", birds(0.5, 0.4, fingerprint="bbbbbbbbbb").document)
    seen = FinishedCheck("seen", "parent-of-seen", birds(0.9, 0.8, protocol="conventional").document)
    made = document(overview([same, less, seen]))
    titles = [column["title"] for column in made["columns"]]
    assert titles == ["cub (fair, 9f1c2e)", "cub (fair, bbbbbb)", "cub (conventional)"]
    assert made["warnings"] == ["conventional protocol: these figures were monitored on the test classes"]


def test_rows_of_a_papers_table_have_their_own_names() -> None:
    rows = [configuration("C2", noisy(0.2, 1), ["C2"]), configuration("C2-XBM", noisy(0.25, 2), ["C2+XBM"])]
    assert document(overview([checked("table-3.1-CUB-C2", *rows)]))["rows"] == ["C2", "C2+XBM"]


def test_every_cell_carries_run_commit_data_and_the_models() -> None:
    made = document(overview([birds(0.30, 0.27, 0.22)], ["map_at_r", "precision_at_1"], ensemble=True))
    assert len(made["cells"]) == 3 * 2 * 2
    for cell in made["cells"]:
        assert (cell["run_id"], cell["commit"], cell["models"]) == (
            "parent-of-birds-check",
            "e0934e0c2d7a",
            12,
        )
        assert len(cell["model_run_ids"]) == 12
        column = made["columns"][cell["column"]]
        assert column["fingerprint"] == "9f1c2e77a0b4d311"
        assert column["score"] == "single" or not cell["mark"]
    (study,) = made["studies"]
    assert (study["models"], study["data"]) == (36, ["cub:9f1c2e77a0b4d311"])


def test_a_failed_configuration_leaves_a_gap_and_an_unknown_metric_is_named() -> None:
    check = checked("birds-check", configuration("winner", {}), configuration("baseline", noisy(0.2, 1)))
    found = overview([check])
    assert [cell.row for cell in found] == ["ccp baseline"]
    with pytest.raises(UserError, match="no metric 'map_at_q' in these checks; did you mean 'map_at_r'"):
        overview([check], ["map_at_q"])


def test_the_mark_is_that_of_the_documents_scores_whatever_their_order() -> None:
    cells = overview([birds(0.22, 0.27, 0.30)])
    assert marks(cells) == {"ccp winner": "", "ccp reference": "second", "ccp baseline": "best"}
    assert np.argmax([cell.mean for cell in cells]) == 2
