from __future__ import annotations

import io
import random

import pytest
from rich.cells import cell_len
from rich.console import Console

from dmltune.report.search_progress import View, choose, live
from dmltune.search.state import SearchEvent, SearchState, TrialRecord


def drawn(state: SearchState, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    view = View(console)
    view.watch(SearchEvent("progress", None, "", state))
    with console.capture() as captured:
        console.print(view.render())
    return captured.get().splitlines()


def test_every_trial_shows_its_role_parameters_step_scores_and_state(state: SearchState) -> None:
    text = "\n".join(drawn(state))
    for expected in (
        "demo · glyphs-ccp\n5 of 13 trials   best 42.6 % (trial 2)   ",
        "lambda proxies pool_size",
        "0 reference 0.0002       8        12",
        "1 baseline  references=batch",
        "1.2e-5      16        24",
        "600/600  42.1  42.6 done",
        "200/600  28.1  28.1 pruned",
        "failed",
        "100/600  25.0  25.0 running",
        "left",
    ):
        assert expected in text


def test_the_table_fills_80_to_120_columns(state: SearchState) -> None:
    long = {f"references.a_rather_long_parameter_{index}": 0.123456789 for index in range(9)}
    state.put(TrialRecord(12345, "search", long, "interrupted", 100000, 400000, 0.5, 1.0))
    for width, most in ((80, 80), (100, 100), (120, 120), (200, 120)):
        widest = max(cell_len(line) for line in drawn(state, width))
        assert most - 3 <= widest <= most


def test_the_narrow_parameters_are_shown_where_not_all_fit(state: SearchState) -> None:
    for record in state.rows.values():
        if record.role != "baseline":
            record.values |= {"loss.margin": 0.5, "optimizer.a_parameter_with_a_long_name": 3}
    narrow, wide = drawn(state, 80), drawn(state, 120)
    assert any("lambda proxies pool_size margin +1" in line for line in narrow)
    assert any("lambda proxies pool_size margin a_parameter_with_a_long_name" in line for line in wide)


def test_a_baseline_whose_columns_do_not_fit_shows_what_it_sets(state: SearchState) -> None:
    wide = {f"loss.a_rather_long_parameter_{index}": 0.123456789 for index in range(3)}
    for record in state.rows.values():
        record.values |= {"references.name": "batch" if record.role == "baseline" else "ccp", **wide}
        if record.role == "baseline":
            record.values = {"references.name": "batch"}
    assert any("1 baseline  references=batch" in line for line in drawn(state, 80))


def test_a_step_between_two_validations_is_shown(state: SearchState) -> None:
    state.note_step(5, 137)
    state.note_step(2, 9)  # it has ended
    lines = drawn(state)
    assert any("137/600" in line and "running" in line for line in lines)
    assert not any("9/600 " in line for line in lines)


def test_the_time_left_is_known_from_the_pace_of_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0])
    state = SearchState("d", "s", "map_at_r", "max", trials_planned=3)
    state.put(TrialRecord(0, "reference", {}, max_steps=100))
    assert state.seconds_left() is None
    monkeypatch.setattr("dmltune.search.state.time.monotonic", lambda: next(clock))
    state.note_step(0, 10)
    state.note_step(0, 30)  # half a second a step: 50 s a trial, 35 s of this one and two more
    assert state.seconds_left() == pytest.approx(35 + 2 * 50)


def test_values_of_trials_are_shown_as_they_are(state: SearchState) -> None:
    """Neither as markup of rich nor as codes of the terminal."""
    state.put(TrialRecord(7, "search", {"data.name": "[/red]\x1b[1m"}, "running", 1, 600, 0.5, 0.5))
    text = "\n".join(drawn(state))
    assert "[/red]\\x1b[1m" in text
    assert "\x1b" not in text


def test_a_long_search_fits_the_screen_and_shows_what_matters(state: SearchState) -> None:
    generator = random.Random(0)
    for number in range(6, 300):
        state.put(
            TrialRecord(number, "search", {}, "complete", 600, 600, 0.3, 0.3 + 0.1 * generator.random())
        )
    state.put(TrialRecord(40, "search", {}, "running", 100, 600, 0.3, 0.3))
    lines = drawn(state, height=20)
    assert len(lines) <= 20
    assert "more" in lines[-1]
    shown = [row.number for row in choose(state, 14)]
    best = state.best_row()
    assert best is not None
    assert {0, 1, 5, 40, 299, best.number} <= set(shown)
    assert shown == sorted(shown)


def test_before_the_first_event_it_says_what_it_waits_for(state: SearchState) -> None:
    console = Console(file=io.StringIO(), width=80)
    view = View(console)
    assert "starting" in str(view.render())
    view.watch(SearchEvent("message", None, "rendering glyphs", SearchState("d", "s", "map_at_r", "max", 1)))
    with console.capture() as captured:
        console.print(view.render())
    assert "rendering glyphs" in captured.get()


def test_the_last_table_stays_on_the_screen(state: SearchState) -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    with live(console) as watch:
        watch(SearchEvent("finished", state.rows[2], "", state))
    stream = console.file
    assert isinstance(stream, io.StringIO)
    assert "42.6" in stream.getvalue()


def test_the_projection_of_every_trial_has_a_narrow_column(state: SearchState) -> None:
    assert not any("proj" in line for line in drawn(state))
    for number, record in state.rows.items():
        if record.role != "baseline":
            record.metrics["projection"] = float(number + 2)
    lines = drawn(state)
    heading = next(line for line in lines if "proj" in line)
    end = heading.index("proj") + len("proj")
    rows = {int(line[:3]): line for line in lines if line[:3].strip().isdigit()}
    assert [rows[number][:end].split()[-1] for number in (0, 2, 3)] == ["2", "4", "5"]
    assert all(cell_len(line) <= 80 for line in lines)


def test_a_repetition_shows_its_seed(state: SearchState) -> None:
    state.put(TrialRecord(6, "repeat", {}, "running", 100, 600, 0.2, 0.2, seed=7))
    assert any("repeat" in line and "seed=7" in line for line in drawn(state))
