"""A search of many trials without a training: a smooth score over two parameters, noise, and early stops."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from datetime import datetime, timedelta

from optuna.distributions import distribution_to_json
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.orm import Session

from dmltune.search.study import open_storage
from dmltune.store import Store
from support.stored_searches import EXPERIMENT, REFERENCE, WrittenTrial, frozen, write_search

STEPS = (0, 5, 10, 15, 20)


def score(penalty: float, proxies: int) -> float:
    """The noiseless score of a point: best at a λ of 0.001 with 4 proxies."""
    return 0.5 - 0.03 * (math.log10(penalty) + 3) ** 2 - 0.01 * abs(proxies - 4)


def trial(number: int, rng: random.Random) -> WrittenTrial:
    if number == 0:
        values, role, best = REFERENCE, "reference", 0.4
    elif number == 1:
        values, role, best = {}, "baseline", 0.35
    else:
        penalty, proxies = 10 ** rng.uniform(-5, -1), rng.randint(1, 6)
        values = REFERENCE | {"references.lambda": penalty, "references.proxies": proxies}
        values |= {
            "references.pool_size": rng.randint(proxies, 9),
            "references.batch_weight": 10 ** rng.uniform(0, 2),
        }
        role, best = "search", score(penalty, proxies) + rng.gauss(0, 0.01)
    curve = {step: 0.1 + (best - 0.1) * step / 20 for step in STEPS}
    written = WrittenTrial(role, curve, values, about={"seconds": 10.0, "projections": {"10": 1, "20": 2}})
    if number > 1 and rng.random() < 0.4:
        stopped = {step: curve[step] for step in STEPS[:3]}
        return replace(written, curve=stopped, state=TrialState.PRUNED)
    return written


def timed(number: int, made: FrozenTrial) -> FrozenTrial:
    start = datetime(2030, 1, 1) + timedelta(seconds=5 * number)
    made.datetime_start, made.datetime_complete = start, start + timedelta(seconds=10)
    return made


def write_large_search(store: Store, name: str, trials: int, seed: int = 0) -> None:
    """Write the search with an outcome; all its trials are added at once."""
    rng = random.Random(seed)
    written = [trial(number, rng) for number in range(trials)]
    best = max(
        (number for number, each in enumerate(written) if each.state == TrialState.COMPLETE),
        key=lambda number: max(written[number].curve.values()),
    )
    lead = {"mean": 0.14, "low": 0.12, "high": 0.16}
    outcome = {"winner": best, "winner_set": [best, 0], "noise": 0.01, "lead": lead, "lead_is_noise": False}
    outcome["corrected"] = {"mean": 0.49, "low": 0.47, "high": 0.51}
    write_search(store, name, (), planned=trials, outcome=outcome)
    add_all(store, name, [timed(n, frozen(each, EXPERIMENT, n)) for n, each in enumerate(written)])


def add_all(store: Store, name: str, trials: list[FrozenTrial]) -> None:
    """Write the rows of all trials in one transaction: one by one they take a minute."""
    storage = open_storage(store)
    study_id = storage.get_study_id_from_name(name)
    finite = models.TrialValueModel.TrialValueType.FINITE
    with Session(storage.engine) as session:
        first = session.query(models.TrialModel).count() + 1
        rows, params, facts, scores, values = [], [], [], [], []
        for trial in trials:
            own = {"trial_id": first + trial.number}
            times = {"datetime_start": trial.datetime_start, "datetime_complete": trial.datetime_complete}
            rows.append({**own, **times, "number": trial.number, "study_id": study_id, "state": trial.state})
            for key, value in trial.params.items():
                ranged = trial.distributions[key]
                number, text = ranged.to_internal_repr(value), distribution_to_json(ranged)
                params.append({**own, "param_name": key, "param_value": number, "distribution_json": text})
            facts += [{**own, "key": k, "value_json": json.dumps(v)} for k, v in trial.user_attrs.items()]
            for step, value in trial.intermediate_values.items():
                kind = models.TrialIntermediateValueModel.TrialIntermediateValueType.FINITE
                scores.append(
                    {**own, "step": step, "intermediate_value": value, "intermediate_value_type": kind}
                )
            if trial.value is not None:
                values.append({**own, "objective": 0, "value": trial.value, "value_type": finite})
        for model, mappings in (
            (models.TrialModel, rows),
            (models.TrialParamModel, params),
            (models.TrialUserAttributeModel, facts),
            (models.TrialIntermediateValueModel, scores),
            (models.TrialValueModel, values),
        ):
            session.bulk_insert_mappings(model, mappings)
        session.commit()
