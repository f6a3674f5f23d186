"""Ours beside theirs: what a store has measured, what not and why; what is run and how it is named."""

from __future__ import annotations

import io
import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.checked_documents import checked, configuration, grid, versus

from dmltune.errors import UserError
from dmltune.report.paper_table import paper_table
from dmltune.reproduce.table_cells import document
from dmltune.reproduce.table_studies import (
    TableSelection,
    configurations,
    key_of,
    run_table,
    select_table,
)
from dmltune.resources import Locations, Resources
from dmltune.store import Store
from dmltune.tables.finished_checks import FinishedCheck

ROWS = """\
about: two losses, with and without a memory
source: a paper, Table 9
protocol: {protocol}
notes: [theirs had more data]
data:
  G: {{name: glyphs, space: glyphs}}
  S: {{name: sop, space: sop}}
columns:
  512D: {{score: ensemble, metric: map_at_r}}
  128D: {{score: single, metric: map_at_r}}
  NMI:  {{score: single, metric: nmi}}
rows:
  C2:     {{theirs: {{G: [46.94, 42.66, 70.0], S: [45.0, 41.0, null]}}}}
  C2+XBM: {{group: C2, overrides: [references=xbm], theirs: {{G: [49.04, 45.15, 71.0]}}}}
  Triplet: {{overrides: [loss=triplet], theirs: {{G: [40.00, 35.00, 60.0]}}}}
  other:  {{quoted: true, theirs: {{G: [50.00, 45.00, 70.0]}}}}
"""


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root without data sets."""
    monkeypatch.delenv("DMLTUNE_DATA", raising=False)
    return tmp_path / "nowhere"


def selection(tmp_path: Path, protocol: str = "fair", **chosen: Any) -> TableSelection:
    file = tmp_path / "nine.yaml"
    file.write_text(ROWS.format(protocol=protocol), encoding="utf-8")
    return select_table(str(file), **chosen)


def shown(
    tmp_path: Path, checks: Sequence[FinishedCheck], nowhere: Path, **chosen: Any
) -> tuple[dict[str, Any], dict[tuple[str, str, str], dict[str, Any]]]:
    made = document(selection(tmp_path, **chosen), checks, nowhere)
    return made, {(cell["row"], cell["data"], cell["column"]): cell for cell in made["cells"]}


def printed(made: dict[str, Any]) -> str:
    file = io.StringIO()
    console = Console(width=80, file=file)
    for part in paper_table(made):
        console.print(part)
    return file.getvalue()


def test_without_any_check_every_cell_says_why_it_is_empty(tmp_path: Path, nowhere: Path) -> None:
    made, cells = shown(tmp_path, [], nowhere)
    assert cells["C2", "G", "128D"]["state"] == "not run"
    assert cells["C2", "S", "128D"]["state"] == "data missing"
    assert "no Stanford_Online_Products" in cells["C2", "S", "128D"]["reason"]
    assert cells["other", "G", "128D"]["state"] == "cannot"
    assert "quoted from its own paper" in cells["other", "G", "128D"]["reason"]
    assert {study["state"] for study in made["studies"]} == {"not run"}
    text = printed(made)
    assert "0 of 14 printed figures have ours beside them" in text
    assert "sop: data missing, not run" in text
    assert "(a) quoted from its own paper" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_was_checked_stands_below_the_print_with_its_interval(tmp_path: Path, nowhere: Path) -> None:
    gain = versus(difference=0.031, low=0.012, high=0.050, p=0.003, p_holm=0.004)
    check = checked(
        "table-nine-G-C2",
        configuration("C2", grid(0.40, (0.0, 0.01)), ["C2"]),
        configuration("C2-XBM", grid(0.431, (0.0, 0.01)), ["C2+XBM"], versus_baseline=gain),
        data="glyphs",
    )
    made, cells = shown(tmp_path, [check], nowhere)
    one = cells["C2+XBM", "G", "128D"]
    assert (one["state"], one["models"], one["study"]) == ("done", 12, "table-nine-G-C2")
    assert one["theirs"] == 0.4515
    assert one["ours"] == pytest.approx(0.436)
    assert one["low"] < one["ours"] < one["high"]
    assert cells["C2+XBM", "G", "512D"]["ours"] == pytest.approx(0.486)
    assert cells["C2", "G", "NMI"]["state"] == "not measured"
    assert cells["Triplet", "G", "128D"]["state"] == "not run"
    (row,) = made["gains"]
    assert (row["row"], row["baseline"], row["ours"], row["p"]) == ("C2+XBM", "C2", 0.031, 0.004)
    assert row["theirs"] == pytest.approx(0.0249)
    text = printed(made)
    assert "ours, 12 models" in text
    assert "43.60±0." in text
    assert "C2+XBM over C2, MAP@R, points: theirs +2.49, ours +3.10" in text
    assert "p = 0.004" in " ".join(text.split())
    assert "run parent-of-table-nine-G-C2" in " ".join(text.split())
    assert "  ours: not run" in text  # Triplet
    assert "4 of 14 printed figures" in text
    assert max(map(len, text.splitlines())) <= 80


def test_missing_models_and_failures_are_shown(tmp_path: Path, nowhere: Path) -> None:
    some = dict(list(grid(0.4, (0.0, 0.02)).items())[:7])
    failed = {f"C2-XBM-fold{fold}-seed1000": "the loss is NaN" for fold in range(4)}
    check = checked(
        "table-nine-G-C2",
        configuration("C2", some, ["C2"]),
        configuration("C2-XBM", {}, ["C2+XBM"]),
        failed=failed,
        data="glyphs",
    )
    made, cells = shown(tmp_path, [check], nowhere)
    assert (cells["C2", "G", "128D"]["state"], cells["C2", "G", "128D"]["reason"]) == (
        "partly",
        "7 of 12 models",
    )
    assert (cells["C2+XBM", "G", "128D"]["state"], cells["C2+XBM", "G", "128D"]["reason"]) == (
        "failed",
        "the loss is NaN",
    )
    text = printed(made)
    assert "ours: failed" in text
    assert "C2-XBM-fold0-seed1000 failed: the loss is NaN" in text


def test_another_setting_than_the_tables_is_shown(tmp_path: Path, nowhere: Path) -> None:
    values = {"references": "xbm", "max_steps": 100, "data.size": 16}
    check = checked(
        "quick-G-C2",
        configuration("C2", grid(0.40), ["C2"], {"max_steps": 100, "data.size": 16}),
        configuration("C2-XBM", grid(0.41), ["C2+XBM"], values),
        data="glyphs",
    )
    made, _ = shown(tmp_path, [check], nowhere, name="quick")
    study = next(study for study in made["studies"] if study["study"] == "quick-G-C2")
    assert study["changes"] == {"max_steps": 100, "data.size": 16}
    assert "not the table's settings: max_steps=100 size=16" in printed(made)


def test_a_configuration_that_was_merged_with_an_equal_one_is_found_by_its_label(
    tmp_path: Path, nowhere: Path
) -> None:
    check = checked("table-nine-G-C2", configuration("C2", grid(0.4), ["C2", "C2+XBM"]), data="glyphs")
    _, cells = shown(tmp_path, [check], nowhere)
    assert cells["C2+XBM", "G", "128D"]["ours"] == pytest.approx(0.4)


def test_a_conventional_table_has_a_warning(tmp_path: Path, nowhere: Path) -> None:
    made = document(selection(tmp_path, "conventional"), [], nowhere)
    assert "conventional protocol, theirs and ours" in printed(made)


def test_plus_minus_is_the_standard_deviation_of_all_collections_of_one_model_of_each_fold() -> None:
    table = select_table("5.1", rows=["C2"], data=["CUB"])
    (study,) = table.studies()
    scores = grid(0.2, (0.0, 0.013, 0.002, 0.031, 0.006))
    row = configuration("C2", scores, ["C2"])
    row["ensemble"]["map_at_r"]["sd"] = 0.0042
    made = document(table, [checked(study.name, row)], None)
    cells = {cell["column"]: cell for cell in made["cells"]}
    by_fold = [[value for (at, _), value in scores.items() if at == fold] for fold in range(4)]
    means = [statistics.fmean(models) for models in itertools.product(*by_fold)]
    assert len(means) == 81
    assert cells["128D MAP@R"]["spread"] == pytest.approx(statistics.stdev(means), rel=1e-9)
    assert cells["512D MAP@R"]["spread"] == 0.0042
    text = printed(made)
    assert f"±{100 * statistics.stdev(means):.2f}" in text
    assert "±: the standard deviation over all collections of one model of each fold" in text
    assert "4 folds × 3 repeats" in text


def test_where_the_print_has_the_best_repeat_ours_is_the_best_too() -> None:
    table = select_table("5.2", rows=["C1+XBM"], data=["CUB"])
    (study,) = table.studies()
    scores = grid(0.2, (0.01, 0.04, 0.02), folds=1)
    row = configuration("C1-XBM", scores, ["C1+XBM"])
    row["models"][2]["validation"] = 0.9  # monitored best, though its MAP@R is not
    made = document(table, [checked(study.name, row, protocol="conventional", folds=1)], None)
    cells = {cell["column"]: cell for cell in made["cells"]}
    assert cells["MAP@R"]["ours"] == pytest.approx(0.22)
    assert cells["R@1"]["ours"] == pytest.approx(0.52)
    assert cells["MAP@R"]["low"] is None
    assert "1 fold × 3 repeats, of which the best is reported" in " ".join(printed(made).split())


def test_a_check_under_another_protocol_than_the_tables_is_said_to_be() -> None:
    table = select_table("3.2", rows=["C2+CCP-L"], data=["CUB"])
    (study,) = table.studies()
    old = checked(study.name, configuration("C2-CCP-L", grid(0.2), ["C2+CCP-L"]))
    made = document(table, [old], None)
    assert made["studies"][0]["changes"]["protocol"] == "fair"
    assert "not the table's settings: protocol=fair" in printed(made)


def test_rows_of_a_group_are_one_check_and_the_baseline_comes_with_any_of_them(tmp_path: Path) -> None:
    studies = selection(tmp_path, rows=["c2+xbm"], data=["glyphs"]).studies()
    (one,) = studies
    assert (one.name, one.data, one.baseline, one.rows) == ("table-nine-G-C2", "G", "C2", ("C2", "C2+XBM"))
    names = [study.name for study in selection(tmp_path).studies()]
    assert names == ["table-nine-G-C2", "table-nine-G-Triplet", "table-nine-S-C2"]


def test_steps_are_those_of_the_table_whose_trainings_they_are() -> None:
    steps = select_table("3.3", rows=["C2+XBM"], data=["SOP"])
    (study,) = steps.studies()
    assert study == select_table("3.1", rows=["C2+XBM+L"], data=["SOP"]).studies()[0]
    check = checked(
        study.name,
        configuration("C2", grid(0.4), ["C2"], step=60_000),
        configuration("C2-XBM-L", grid(0.4), ["C2+XBM+L"], step=80_000),
        data="sop",
    )
    (cell,) = document(steps, [check], None)["cells"]
    assert (cell["theirs"], cell["ours"]) == (81_000, 80_000)


def test_validation_scores_stand_beside_printed_validation_scores() -> None:
    screening = select_table("5.4", rows=["baseline"], data=["C2"])
    (study,) = screening.studies()
    check = checked(study.name, configuration("baseline", grid(0.2), ["baseline"]))
    (cell,) = document(screening, [check], None)["cells"]
    assert cell["ours"] == pytest.approx(0.4)


def test_the_experiments_of_a_check_have_the_changes_of_the_user_last(tmp_path: Path) -> None:
    table = selection(tmp_path, rows=["C2+XBM"], data=["G"])
    base, xbm = configurations(table, table.studies()[0], ["max_steps=8", "validate_every=4"])
    assert (base.key, base.labels, xbm.key, xbm.labels) == ("C2", ("C2",), "C2-XBM", ("C2+XBM",))
    assert base.experiment.max_steps == xbm.experiment.max_steps == 8
    assert xbm.experiment.references.name == "xbm"
    assert xbm.values == {"references": "xbm", "max_steps": 8, "validate_every": 4}
    with pytest.raises(UserError, match=r"objective\.protocol is set by the check"):
        configurations(table, table.studies()[0], ["objective.protocol=fair"])


def test_nothing_to_train_is_one_line(tmp_path: Path, nowhere: Path) -> None:
    locations = Locations(Store.at(tmp_path / "store"), nowhere)
    with pytest.raises(UserError, match=r"nothing of table .* can be trained here"):
        run_table(selection(tmp_path, rows=["other"]), Resources(), locations)
    with pytest.raises(UserError, match="nothing could be trained: no Stanford_Online_Products"):
        run_table(selection(tmp_path, data=["S"]), Resources(), locations)


def test_unknown_rows_and_data_are_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no row 'C2\+XMB' in this table; did you mean 'C2\+XBM'"):
        selection(tmp_path, rows=["C2+XMB"])
    with pytest.raises(UserError, match="no data 'Q' in this table"):
        selection(tmp_path, data=["Q"])


def test_the_name_of_a_row_as_a_file_name() -> None:
    assert key_of("C1+XBM 128 [14]") == "C1-XBM-128-14"
    assert key_of("ProxyNCA++") == "ProxyNCA"
    assert key_of("m 16 μ 0.3 ε 0.5 λ 0.1") == "m-16-0.3-0.5-0.1"
