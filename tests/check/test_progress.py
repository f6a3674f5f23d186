"""Lines about trainings: their ends always, the time left from the steps of this session."""

from __future__ import annotations

import pytest

from dmltune.check.progress import CheckProgress
from dmltune.train.orders import TrialReport, failed


def report(step: int, finished: bool = False) -> TrialReport:
    return TrialReport(step // 10, step, 100, {}, 0.25, 0.3, finished=finished)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_that_of_the_steps_left_at_the_pace_of_this_session() -> None:
    clock, said = Clock(), list[str]()
    pace = CheckProgress(
        {"a": 100, "b": 100, "c": 100}, done=2, metric="map_at_r", say=said.append, now=clock
    )
    assert pace.seconds_left() is None
    clock.now = 100.0  # the start of Ray is no pace
    pace.heard("a", report(0))
    pace.heard("b", report(50))  # continued: those steps were trained in another session
    assert said[-1] == "b: step 50/100, validation MAP@R 25.0 %; 2 of 5 trained"
    clock.now = 120.0
    pace.heard("a", report(40))
    pace.heard("b", report(60))
    assert pace.seconds_left() == pytest.approx((60 + 40 + 100) * 20 / 50)
    assert said[-1].startswith("a: step 40/100")  # and nothing of b so soon after
    pace.heard("a", report(40, finished=True))  # stopped early
    assert said[-1] == "a: done after 40 steps, validation MAP@R 30.0 %; 3 of 5 trained, at most 56s left"


def test_a_failed_training_is_told_in_one_line_and_waited_for_no_longer() -> None:
    clock, said = Clock(), list[str]()
    pace = CheckProgress({"a": 100, "b": 100}, done=0, metric="map_at_r", say=said.append, now=clock)
    pace.heard("a", report(0))
    pace.heard("b", failed("the loss is not finite\nTraceback"))
    assert said[-1] == "b failed: the loss is not finite"
    clock.now = 10.0
    pace.heard("a", report(50))
    assert pace.seconds_left() == pytest.approx(10.0)
    pace.heard("a", report(100, finished=True))
    assert said[-1].endswith("1 of 2 trained")
