"""Log lines about the trainings of a check: step, score, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dmltune.report.formatting import clock, first_line, metric_name, percent
from dmltune.train.orders import TrialReport

EVERY_S = 10.0  # between lines about trainings under way; every end has a line


class CheckProgress:
    """`steps` is the most that each remaining training takes; early stopping makes it shorter."""

    def __init__(
        self,
        steps: Mapping[str, int],
        done: int,
        metric: str,
        log: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = dict(steps)
        self._all, self._done = len(steps) + done, done
        self._metric, self._log, self._now = metric_name(metric), log, now
        self._at: dict[str, int] = {}
        self._trained = 0
        self._began = self._last_line = now()

    def update(self, member: str, report: TrialReport) -> None:
        """Log a line at a first report, at an end, and after EVERY_S without a line."""
        moment = self._now()
        if report.failure:
            self._left.pop(member, None)
            self._log(f"{member} failed: {first_line(report.failure)}")
            return
        previous = self._at.get(member)
        if previous is not None:
            self._trained += report.step - previous
        elif not self._at:
            self._began = moment  # start-up is not training
        self._at[member] = report.step
        self._left[member] = report.max_steps - report.step
        if report.finished:
            del self._left[member]
            self._done += 1
            line = f"done after {report.step} steps, {self._score(report.best_score)}"
        elif previous is None or moment - self._last_line >= EVERY_S:
            line = f"step {report.step}/{report.max_steps}, {self._score(report.score)}"
        else:
            return
        self._last_line = moment
        seconds = self.seconds_left()
        left = "" if seconds is None else f", at most {clock(seconds)} left"
        self._log(f"{member}: {line}; {self._done} of {self._all} trained{left}")

    def seconds_left(self) -> float | None:
        """Extrapolate from the steps of this session; None without a step or without work."""
        elapsed, left = self._now() - self._began, sum(self._left.values())
        if not self._trained or elapsed <= 0 or not left:
            return None
        return left * elapsed / self._trained

    def _score(self, score: float | None) -> str:
        return f"validation {self._metric} {percent(score)} %"
