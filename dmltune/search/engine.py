"""The search engine: which trial is next, and whether a running one goes on. Without Ray and without a clock.

Ray Tune (searcher.py) and the simulator (simulation.py) ask the same engine. It decides from the trials
alone: given the trials of an earlier session, it goes on as if it had not been interrupted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import FrozenTrial

from dmltune.search import expected_gain
from dmltune.search.budget import Plan
from dmltune.search.earlier import STARTS, EarlierPoint
from dmltune.search.engine_trial import Decision, EngineState, EngineTrial, TrialRole, is_identical
from dmltune.search.front import may_be_on_front
from dmltune.search.judged_front import judged_front
from dmltune.search.observations import Observations, noise_of
from dmltune.search.replication import Again, Replication
from dmltune.search.sampling import Proposal, Proposer, TriedPoints
from dmltune.search.scalarisation import weights_of
from dmltune.search.schedulers import Rule
from dmltune.search.score_table import ScoreTable
from dmltune.search.screening import Screening
from dmltune.search.state import Front, Trust
from dmltune.search.winners import Verdict, judge

WAIT = "wait"  # nothing to start now; a trial that is running decides what is next
END = "end"  # nothing to start any more


@dataclass(frozen=True)
class Start:
    """Begin a new trial. A repetition (`repeats`) has the values of that trial."""

    role: TrialRole
    proposal: Proposal
    seed: int
    fold: int
    repeats: int | None = None


@dataclass(frozen=True)
class Continue:
    """Go on with this paused trial."""

    number: int


Next = Start | Continue | str


@dataclass
class Engine:
    """`attributes` is what the sampler keeps in the study, `earlier` are points of earlier searches."""

    plan: Plan
    rule: Rule
    proposer: Proposer
    attributes: Mapping[str, Any] = field(default_factory=dict)
    earlier: Sequence[EarlierPoint] = ()

    def __post_init__(self) -> None:
        self.trials: dict[int, EngineTrial] = {}
        self._tried = TriedPoints()  # the values of all points
        self._compared: dict[int, EngineTrial] = {}  # complete ones and repetitions: few of many trials
        self._roles: Counter[str] = Counter()
        self._further_folds = 0
        self._replication = Replication(self.plan)
        self._observations = Observations(self.proposer.space)
        self._space_is_used_up = False
        self.screening = Screening(self.plan.fidelity) if self.plan.fidelity else None

    # ---- what happened

    def add(self, trial: EngineTrial) -> None:
        """Enter a trial that was started, now or in an earlier session."""
        if trial.number not in self.trials:
            self._roles[trial.role] += 1
            self._further_folds += self._is_fold(trial)
            first = self._roles["reference"] + self._roles["search"]
            trial.measures_fidelity = bool(
                self.plan.fidelity and trial.is_point and first <= self.plan.fidelity.trials
            )
            if trial.is_point and not self._roles["cheap"]:
                self._tried.add(trial.values)
            elif (trial.is_point or trial.role == "cheap") and trial.values not in self._tried:
                self._tried.add(trial.values)  # a point that is trained both ways counts once
        self.trials[trial.number] = trial
        self._note(trial)
        if trial.role == "cheap":
            return
        if trial.state != "running":
            self.rule.restore(trial)
        elif trial.steps:  # the rule is asked once more about the last validation
            last = trial.pop()
            self.rule.restore(trial)
            trial.add(*last)

    def _note(self, trial: EngineTrial) -> None:
        if trial.role != "cheap" and (trial.state == "complete" or trial.repeats is not None):
            self._compared[trial.number] = trial

    def note_costs(self, number: int, costs: Mapping[str, float]) -> None:
        """Enter what the model of a trial costs, which is known before its first decision."""
        self.trials[number].costs = dict(costs)

    def report(self, number: int, step: int, score: float, projections: int = 0) -> Decision:
        """Enter a validation and decide. One that is entered already changes nothing."""
        trial = self.trials[number]
        if not trial.add(step, score, projections):
            return "continue"
        return self._decide(trial)

    def decide_again(self, number: int) -> Decision:
        """Decide for the last validation of a trial whose decision was lost with the driver."""
        trial = self.trials[number]
        if not trial.steps:
            return "continue"
        return self._decide(trial)

    def _decide(self, trial: EngineTrial) -> Decision:
        if trial.role == "cheap":
            return "continue"
        if trial.role == "repeat":
            return "stop" if is_identical(trial, self.trials[trial.configuration]) else "continue"
        decision = self.rule.report(trial)
        if trial.protected:
            return "continue"
        against = self.plan.against
        if decision != "continue" and against and may_be_on_front(trial, self.trials.values(), against):
            self.rule.end(trial.number)  # it is not paused
            return "continue"
        return decision

    def end(self, number: int, state: EngineState) -> None:
        """A trial is over, or paused."""
        trial = self.trials[number]
        trial.state = state
        self._note(trial)
        if state != "paused" and trial.role not in ("repeat", "cheap"):
            self.rule.end(number)

    # ---- what is next

    def next(self) -> Next:
        if found := self._promoted() or self._fixed() or self._fold():
            return found
        if self._points_left() and (start := self._point(self._left())):
            return start
        if found := self._promoted(closing=True):
            return found
        if start := self._repetition():
            return start
        running = any(trial.state == "running" for trial in self.trials.values())
        if not running and self._spare() and (start := self._point(self._spare())):
            return start  # repetitions would tell nothing more
        return WAIT if running else END

    def _promoted(self, closing: bool = False) -> Continue | None:
        number = None if self.plan.used() >= 1 else self.rule.promote(closing)
        if number is None:
            return None
        self.trials[number].state = "running"
        return Continue(number)

    def _fixed(self) -> Start | None:
        """Return the reference point, the baseline or a repetition of the reference point."""
        seed, fold = self.plan.seed, self.plan.first_fold
        if self.plan.reference and not self._roles["reference"]:
            return Start("reference", Proposal(self.plan.reference), seed, fold)
        if self.plan.baseline and not self._roles["baseline"]:
            return Start("baseline", Proposal({}), seed, fold)
        if len(self.trials) > 1 + self.plan.baseline + self.plan.noise_repeats:
            return None  # they were all started
        return self._again(self._replication.of_the_noise(self._full()))

    def _fold(self) -> Start | None:
        return self._again(self._replication.of_a_fold(self._full())) if self._spare() else None

    def _full(self) -> Collection[EngineTrial]:
        """Return the trials that are not cheap."""
        if not self._roles["cheap"]:
            return self.trials.values()
        return [trial for trial in self.trials.values() if trial.role != "cheap"]

    def _points_left(self) -> bool:
        if self._left() <= 0 or self.plan.used() >= 1 - self.plan.share:
            return False
        return not (self.plan.stop_at_noise and self.gain_is_noise())

    def _left(self) -> float:
        """Return how many points of the budget were not begun."""
        begun = self._roles["reference"] + self._roles["search"] + self._further_folds
        return self.plan.points - begun - self._cheap_cost()

    def _cheap_cost(self) -> float:
        """Return what the cheap trials cost, in full ones."""
        return self._roles["cheap"] * self.plan.fidelity.cost if self.plan.fidelity else 0.0

    def _point(self, left: float) -> Start | None:
        """Return a new point, the twin of one of the first, or a promising cheap one to train in full."""
        if self.screening is None:
            return self._proposed()
        trials, seed, fold = self.trials.values(), self.plan.seed, self.plan.first_fold
        if not self.screening.is_used(trials):
            point = None if self.screening.trust(trials) else self.screening.twinless(trials)
            return Start("cheap", Proposal(point.values), seed, fold) if point else self._proposed()
        trial = self.screening.promising(trials)
        if trial is None and self.screening.may_begin(trials, left) and (start := self._proposed()):
            return start
        trial = trial or self.screening.promising(trials, closing=True)
        return Start("search", Proposal(trial.values, trial.attributes), seed, fold) if trial else None

    def _is_fold(self, trial: EngineTrial) -> bool:
        """Whether it trains a point on one of the further folds of `objective.folds`."""
        return self.plan.folds > 1 and trial.repeats is not None and trial.fold != self.plan.first_fold

    def _proposed(self) -> Start | None:
        if self._space_is_used_up or self.plan.used() >= 1:
            return None
        if self.plan.stop_at_noise and self.gain_is_noise():
            return None
        proposal = self._first_of_earlier(self._tried)
        if proposal is None:
            proposal = self.proposer.propose(self._told(), self.attributes, self._tried)
        if proposal is None:
            self._space_is_used_up = True
            return None
        self.attributes = {**self.attributes, **proposal.study_attributes}
        cheap = self.screening is not None and self.screening.is_used(self.trials.values())
        return Start("cheap" if cheap else "search", proposal, self.plan.seed, self.plan.first_fold)

    def _told(self) -> list[FrozenTrial]:
        """Return what the sampler is told; with costs another weighting of the objectives each time."""
        against, weights = self.plan.against, None
        if against:
            weights = weights_of(1 + len(against), self.plan.seed, len(self._tried))
        return self._observations.of(list(self.trials.values()), self.earlier, against, weights)

    def _first_of_earlier(self, tried: TriedPoints) -> Proposal | None:
        """Return one of the best points of earlier searches; they are tried first."""
        if not self.earlier or len(tried) - self._roles["reference"] >= STARTS:
            return None
        untried = (point.values for point in self.earlier[: 2 * STARTS] if point.values not in tried)
        return next((Proposal(values) for values in untried), None)

    def _repetition(self) -> Start | None:
        """Return the next repetition of a candidate, or of the baseline, at the end of the budget."""
        left = min(self._spare(), 1 + int(self.plan.share * len(self.trials)))
        if not self.plan.repeats or not left or self.plan.used() >= 1 or self._is_deterministic():
            return None
        compared = [trial for _, trial in sorted(self._compared.items())]
        return self._again(self._replication.of_a_candidate(compared, left))

    def _is_deterministic(self) -> bool:
        """Whether a repetition was stopped because it repeated its configuration exactly."""
        return any(t.role == "repeat" and t.state == "pruned" for t in self._compared.values())

    def _spare(self) -> int:
        """Return how many trials of the budget were not begun."""
        full = len(self.trials) - self._roles["cheap"]
        return max(0, int(self.plan.total - full - self._cheap_cost()))

    def _again(self, again: Again | None) -> Start | None:
        if again is None:
            return None
        values = self.trials[again.configuration].values
        return Start("repeat", Proposal(values), again.seed, again.fold, again.configuration)

    # ---- what is known

    def verdict(self) -> Verdict | None:
        """Return the winner and how sure it is; None before a trial is complete."""
        noise = 0.0 if self._is_deterministic() else None
        return judge(ScoreTable.of(self.trials.values()), noise=noise)

    def front(self, stored: Collection[int] | None = None) -> Front | None:
        """Return the front of score and costs, of `stored` trials if given; None without costs."""
        if not self.plan.against:
            return None
        noise = 0.0 if self._is_deterministic() else None
        return judged_front(self.trials, self.plan.against, noise, stored)

    def trust(self) -> Trust | None:
        """Return what is known of the cheap fidelity; None before it was measured, or without one."""
        return self.screening.trust(self.trials.values()) if self.screening else None

    def noise(self) -> float | None:
        return noise_of(self.trials.values())

    def gain_is_noise(self) -> bool:
        """Whether further proposals are expected to gain less than the noise."""
        noise = self.noise()
        scores = [t.score for t in self.trials.values() if t.is_point and t.score is not None]
        return noise is not None and expected_gain.gain_is_noise(scores, noise)
