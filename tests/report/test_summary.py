from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dmltune.cli.output import Output
from dmltune.report.summary import store_option, summary
from dmltune.search.state import IdleParameter, Outcome, Range, SearchResult, TrialRecord

RESUME = "dmltune search glyphs-ccp --name demo"
EXTEND = f"{RESUME} --trials 12"

FOUND = Outcome(2, (2, 0), 0.021, Range(0.196, 0.164, 0.23), Range(0.005, -0.023, 0.031), True)


def printed(result: SearchResult, test_opened: bool = False) -> str:
    stream = io.StringIO()
    parts = summary(result, RESUME, EXTEND, " --data-root /data", test_opened=test_opened)
    Output("table", stream).show(*parts)
    return stream.getvalue()


def test_winner_the_reference_point_and_baseline_stand_side_by_side_with_their_differences(
    result: SearchResult,
) -> None:
    lines = [" ".join(line.split()) for line in printed(result).splitlines()]
    assert "winner 2 42.6 +2.8 lambda=1.23e-5 proxies=16" in lines
    assert "reference point 0 40.5 +0.7 lambda=0.0002 proxies=8" in lines
    assert "baseline 1 39.8 references=batch" in lines
    assert "untrained embedder 18.3 -21.5" in lines
    assert any("6 trials: 1 running, 3 done, 1 pruned, 1 failed" in line for line in lines)
    assert "trial 4 failed: the loss is NaN" in lines


def test_it_says_whether_the_test_classes_have_been_opened(result: SearchResult) -> None:
    opened, not_opened = "The test classes were opened before", "The test classes have not been opened"
    assert not_opened in printed(result)
    assert opened not in printed(result)
    assert opened in printed(result, test_opened=True)
    assert not_opened not in printed(result, test_opened=True)
    conventional = printed(replace(result, protocol="conventional"), test_opened=True)
    assert "These are the test classes." in conventional
    assert opened not in conventional


def test_next_commands_stand_on_one_line_each_with_everything_they_need(result: SearchResult) -> None:
    commands = [line.partition("  #")[0].strip() for line in printed(result).splitlines()]
    assert "dmltune evaluate demo --split test --data-root /data" in commands
    assert "dmltune check demo --data-root /data" in commands
    assert EXTEND in commands
    assert f"dmltune ui demo --store {result.store}" in commands


def test_an_interrupted_search_says_how_to_go_on(result: SearchResult) -> None:
    text = printed(replace(result, interrupted=True))
    assert "stopped before its end" in text
    assert f"  {RESUME}  # continue this search\n" in text


def test_a_search_without_a_finished_trial_has_no_winner(result: SearchResult) -> None:
    text = printed(replace(result, winner=None, reference=None, baseline=None, untrained_score=None, rows=()))
    assert "no trial has finished" in text
    assert "did not run" in text
    assert "evaluate" not in text


def test_it_says_when_nothing_beat_the_baseline(result: SearchResult) -> None:
    strong = replace(result, baseline=TrialRecord(1, "baseline", {}, "complete", 600, 600, 0.5, 0.5))
    assert "No trial is better than the baseline." in printed(strong)
    assert "Differences are to the baseline" not in printed(replace(result, baseline=None))
    assert "No trial is better than the reference point." in printed(replace(result, winner=result.reference))


def test_values_of_trials_are_shown_as_they_are(result: SearchResult) -> None:
    """Neither as markup of rich nor as codes of the terminal."""
    winner = TrialRecord(2, "search", {"loss.name": "[/red]\x1b[1m"}, "complete", 1, 1, 0.5, 0.5)
    assert "loss=[/red]\\x1b[1m" in printed(replace(result, winner=winner))


def test_no_table_is_wider_than_80_columns(result: SearchResult) -> None:
    console = Console(file=io.StringIO(), width=80)
    for part in summary(result, RESUME, EXTEND, test_opened=False):
        if hasattr(part, "columns"):
            with console.capture() as captured:
                console.print(part)
            assert all(len(line) <= 80 for line in captured.get().splitlines())
    sentences = printed(replace(result, verdict=FOUND)).partition("runs and checkpoints")[0]
    assert "Winner: 19.6 (16.4 to 23.0) after" in sentences
    assert max(map(len, sentences.splitlines())) <= 80


def test_the_default_store_needs_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DMLTUNE_STORE", raising=False)
    assert store_option(tmp_path / "mlruns") == ""
    assert store_option(tmp_path / "my runs") == " --store 'my runs'"


def test_noise_and_projections_and_parameters_without_effect_are_shown(result: SearchResult) -> None:
    for record in result.rows:
        record.metrics["projection"] = 4.0
    idle = (IdleParameter("references.lambda", 0, 3, "the first projection did not end; train longer"),)
    found = Outcome(2, (2, 0), 0.01, Range(0.42, 0.39, 0.44), Range(0.028, 0.005, 0.05), lead_is_noise=False)
    loud = replace(result, verdict=found, idle_parameters=idle)
    text = " ".join(printed(loud).split())
    assert "winner 2 42.6 +2.8 4 lambda" in text
    assert "Noise: 1.00 points, the standard deviation over seeds." in text
    assert "Winner: 42.0 (39.0 to 44.0) after correction for having been chosen (95 % interval)." in text
    assert "Not distinguishable from it: 1 trial (0)." in text
    assert "Lead over the baseline: +2.8 (+0.5 to +5.0): not noise." in text
    assert "references.lambda acted in 0 of 3 trials: the first projection did not end; train longer" in text
    weak = replace(found, lead=Range(0.028, -0.03, 0.09), lead_is_noise=True)
    assert "+2.8 (-3.0 to +9.0): may be noise." in " ".join(printed(replace(loud, verdict=weak)).split())
    silent = replace(found, noise=0.0)
    assert "there is no noise to allow for" in printed(replace(loud, verdict=silent))
    assert "Noise:" not in printed(result)
