"""How far the trainings of a check are, in lines: which step, which score, how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dmltune.report.formatting import clock, first_line, metric_name, percent
from dmltune.train.orders import TrialReport

EVERY_S = 10.0  # between lines of trainings under way; their ends are always told


class CheckProgress:
    """`steps` are those that each training still to do takes at most; early stopping makes it quicker."""

    def __init__(
        self,
        steps: Mapping[str, int],
        done: int,
        metric: str,
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = dict(steps)
        self._all, self._done = len(steps) + done, done
        self._metric, self._say, self._now = metric, say, now
        self._at: dict[str, int] = {}
        self._trained = 0
        self._began = self._spoke = now()

    def heard(self, member: str, report: TrialReport) -> None:
        """Tell it, when it is an end or has been quiet for long."""
        moment = self._now()
        if report.failure:
            self._left.pop(member, None)
            self._say(f"{member} failed: {first_line(report.failure)}")
            return
        before = self._at.get(member)
        if before is None:
            self._began = moment if not self._at else self._began  # what came before was start-up
        else:
            self._trained += report.step - before
        self._at[member] = report.step
        self._left[member] = report.max_steps - report.step
        score = f"validation {metric_name(self._metric)} {percent(report.score)} %"
        if report.finished:
            del self._left[member]
            self._done += 1
            best = f"validation {metric_name(self._metric)} {percent(report.best_score)} %"
            self._tell(f"{member}: done after {report.step} steps, {best}; {self.summary()}", moment)
        elif before is None or moment - self._spoke >= EVERY_S:
            self._tell(f"{member}: step {report.step}/{report.max_steps}, {score}; {self.summary()}", moment)

    def summary(self) -> str:
        """`3 of 24 trained, 12m00s left`."""
        text = f"{self._done} of {self._all} trained"
        seconds = self.seconds_left()
        return text if seconds is None else f"{text}, at most {clock(seconds)} left"

    def seconds_left(self) -> float | None:
        """At the pace of this session; None while there is none, or nothing is left."""
        elapsed, left = self._now() - self._began, sum(self._left.values())
        if not self._trained or elapsed <= 0 or not left:
            return None
        return left * elapsed / self._trained

    def _tell(self, text: str, moment: float) -> None:
        self._spoke = moment
        self._say(text)
