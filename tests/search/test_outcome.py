"""The outcome of a search: scores as the search has them, and a winner whose model is stored."""

from __future__ import annotations

from dmltune.search.outcome import outcome_of, with_model
from dmltune.search.state import Outcome, Range
from dmltune.search.winners import Verdict

FOUND = Outcome(7, (7, 3, 5), 0.01, Range(0.5, 0.4, 0.6), Range(0.1, 0.0, 0.2), lead_is_noise=False)


def test_scores_that_were_turned_are_turned_back_and_the_lead_is_not() -> None:
    verdict = Verdict(2, (2,), 0.1, 3, Range(-0.5, -0.6, -0.4), Range(0.1, 0.0, 0.2), lead_is_noise=True)
    turned = outcome_of(verdict, "min")
    assert turned is not None
    assert (turned.corrected, turned.lead) == (Range(0.5, 0.4, 0.6), Range(0.1, 0.0, 0.2))
    assert outcome_of(None, "max") is None


def test_the_winner_has_a_stored_model_also_when_repetitions_chose_another_one() -> None:
    assert with_model(FOUND, {7, 0}, 0) is FOUND
    assert with_model(FOUND, {0, 5, 3}, 0) == Outcome(3, (3, 7, 5), 0.01)  # the best of the winner set
    assert with_model(FOUND, {0, 1}, 1) == Outcome(1, (1, 7, 3, 5), 0.01)
    assert with_model(None, {0}, 0) is None
