"""Lines about trainings: every end has one, the time left is from the steps of this session."""

from __future__ import annotations

import pytest

from dmltune.check.progress import CheckProgress
from dmltune.train.orders import TrialReport


def report(step: int, finished: bool = False) -> TrialReport:
    return TrialReport(step // 10, step, 100, {}, 0.25, 0.3, finished=finished)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_that_of_the_steps_left_at_the_speed_of_this_session() -> None:
    clock, lines = Clock(), list[str]()
    progress = CheckProgress(
        {"a": 100, "b": 100, "c": 100}, done=2, metric="map_at_r", log=lines.append, now=clock
    )
    assert progress.seconds_left() is None
    clock.now = 100.0  # the start of Ray is not training
    progress.update("a", report(0))
    progress.update("b", report(50))  # continued: those steps were trained in another session
    assert lines[-1] == "b: step 50/100, validation MAP@R 25.0 %; 2 of 5 trained"
    clock.now = 120.0
    progress.update("a", report(40))
    progress.update("b", report(60))
    assert progress.seconds_left() == pytest.approx((60 + 40 + 100) * 20 / 50)
    assert lines[-1].startswith("a: step 40/100")  # and nothing of b so soon after
    progress.update("a", report(40, finished=True))  # stopped early
    assert lines[-1] == "a: done after 40 steps, validation MAP@R 30.0 %; 3 of 5 trained, at most 56s left"


def test_a_failed_training_is_one_line_and_no_work_left() -> None:
    clock, lines = Clock(), list[str]()
    progress = CheckProgress({"a": 100, "b": 100}, done=0, metric="map_at_r", log=lines.append, now=clock)
    progress.update("a", report(0))
    progress.update("b", TrialReport.failed("the loss is not finite\nTraceback"))
    assert lines[-1] == "b failed: the loss is not finite"
    clock.now = 10.0
    progress.update("a", report(50))
    assert progress.seconds_left() == pytest.approx(10.0)
    progress.update("a", report(100, finished=True))
    assert lines[-1].endswith("1 of 2 trained")
