"""A search's engine from its experiment, and from the trials of earlier sessions."""

from __future__ import annotations

from dmltune.experiment import Experiment
from dmltune.search import samplers, schedulers
from dmltune.search.budget import Plan
from dmltune.search.earlier import stored_points
from dmltune.search.engine import END, Engine
from dmltune.search.records import TrialRecords
from dmltune.search.sampling import Proposer


def make_engine(experiment: Experiment, plan: Plan, records: TrialRecords) -> Engine:
    """Return the engine with all trials of the study."""
    sampler = samplers.load(experiment.sampler.name, **experiment.sampler.parameters)
    scheduler = schedulers.load(experiment.scheduler.name, **experiment.scheduler.parameters)
    proposer = Proposer(
        experiment.space,
        lambda seed: sampler.build(plan.points, seed),
        "max",  # the scores of the engine
        experiment.seed,
    )
    rule = scheduler.build(schedulers.Budget(experiment.max_steps, experiment.validate_every))
    earlier = stored_points(records.study)
    engine = Engine(plan, rule, proposer, records.study.sampler_state(), earlier)
    for trial in records.engine_trials():
        engine.add(trial)
    return engine


def is_over(experiment: Experiment, plan: Plan, records: TrialRecords) -> bool:
    """Return whether nothing is left to train.

    The engine that is asked is thrown away: it counts what it names as begun, and the session would go on
    with the point after it.
    """
    return not records.unfinished() and make_engine(experiment, plan, records).next() == END
