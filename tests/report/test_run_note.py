"""The note of a search in MLflow says what the terminal and the page say."""

from __future__ import annotations

from dataclasses import replace

from dmltune.report.run_note import model_note, verdict_note
from dmltune.search.state import Outcome, Range, SearchResult


def test_the_note_has_the_lead_with_its_interval(result: SearchResult) -> None:
    outcome = Outcome(
        2, (2, 0), 0.01, Range(0.42, 0.39, 0.44), Range(0.028, -0.005, 0.05), lead_is_noise=True
    )
    note = verdict_note(replace(result, verdict=outcome), "what for?", ["references.lambda"])
    assert "Trial 2 is best: MAP@R 42.6 %, +2.8 (-0.5 to +5.0) points to the baseline: may be noise." in note
    assert "untrained)" not in note


def test_a_winner_that_is_an_untrained_network_is_no_best_trial(result: SearchResult) -> None:
    assert result.winner is not None
    untrained = replace(result.winner, best=0.183, best_step=0)
    note = verdict_note(replace(result, winner=untrained), "", ["references.lambda"])
    assert "No trial is better than the untrained network (MAP@R 18.3 %)." in note
    assert "| winner (untrained) | 2 | 18.3 |" in note
    assert "is best" not in note
    assert "No trial is better than the untrained network" in model_note(replace(result, winner=untrained))
