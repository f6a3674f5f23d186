"""Simulated checks with a known truth, for tests of the statistics.

Average precision of query q of class c under model (f, s) of configuration k:

    gap_k + fold_f + pair_fs + interaction_kf + seed_kfs + start_ks
    + class_c + preference_kc + mood_kfsc + query_q + noise_kfsq

Every effect is normal with mean 0. `fold`, `pair`, `class` and `query` are common to both configurations and
cancel in their difference. Two equal configurations have no `interaction` and no `preference`. `start` is a
seed's effect on all folds (its first weights) when folds share their seeds. A check gives every fold seeds of
its own; the simulation shows the reason.
K configurations, M = F·R models of each, Q queries, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dmltune.check.statistics import Floats, Integers


@dataclass(frozen=True)
class Truth:
    """Standard deviations of the effects, and the shape of the study."""

    fold: float = 0.7
    pair: float = 0.0
    interaction: float = 0.0
    seed: float = 0.7
    start: float = 0.0
    klass: float = 5.0
    preference: float = 0.0
    mood: float = 1.0
    query: float = 10.0
    noise: float = 3.0
    folds: int = 4
    repeats: int = 3
    classes: int = 40
    queries: int = 400
    unequal: float = 0.0  # sd of the log of class sizes

    def sd_of_a_model(self) -> float:
        """Return the sd of a model around the mean of its configuration, on the same test classes."""
        mood = self.mood**2 * (1 + self.unequal**2) / self.classes
        scatter = self.fold**2 + self.pair**2 + self.interaction**2 + self.seed**2 + self.start**2
        return math.sqrt(scatter + mood + self.noise**2 / self.queries)


@dataclass(frozen=True)
class Drawn:
    """One simulated check: the average precision of both configurations."""

    ours_MQ: Floats
    base_MQ: Floats
    class_Q: Integers
    fold_M: Integers


def draw(truth: Truth, gap: float, random: np.random.Generator) -> Drawn:
    """Draw a check in which `ours` is better by `gap` in expectation."""
    t, folds, repeats = truth, truth.folds, truth.repeats
    size_C = np.exp(t.unequal * random.standard_normal(t.classes))
    count_C = 2 + random.multinomial(max(0, t.queries - 2 * t.classes), size_C / size_C.sum())
    class_Q = np.repeat(np.arange(t.classes), count_C)
    fold_M = np.repeat(np.arange(folds), repeats)

    def normal(sd: float, *shape: int) -> Floats:
        return sd * random.standard_normal(shape)

    model_KM = normal(t.fold, folds)[fold_M] + normal(t.pair, folds * repeats)
    model_KM = model_KM + normal(t.interaction, 2, folds)[:, fold_M] + normal(t.seed, 2, folds * repeats)
    model_KM = model_KM + np.tile(normal(t.start, 2, repeats), folds)
    class_KMC = normal(t.klass, t.classes) + normal(t.preference, 2, 1, t.classes)
    class_KMC = class_KMC + normal(t.mood, 2, folds * repeats, t.classes)
    query_KMQ = normal(t.query, len(class_Q)) + normal(t.noise, 2, folds * repeats, len(class_Q))
    score_KMQ = 50 + model_KM[:, :, None] + class_KMC[:, :, class_Q] + query_KMQ
    score_KMQ[0] += gap
    return Drawn(score_KMQ[0], score_KMQ[1], class_Q, fold_M)
