"""Class-disjoint splits of a training half into training and validation classes (method-facts,
"Protocols")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmltune.data.images import Ints
from dmltune.errors import UserError, nearest

PARTITIONS = {
    "ablation": 3,
    "fair": 4,
    "tuning": 5,
}  # validation takes one partition of the classes, training the rest


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending indices of the images to train on and of those to validate on. No class is on both sides."""

    train_N: Ints
    validation_N: Ints


def folds(protocol: str) -> int:
    """How many folds a protocol has."""
    if protocol == "conventional":
        raise UserError(
            "protocol 'conventional' monitors the test classes and is not in this version yet; use "
            + ", ".join(PARTITIONS)
        )
    if protocol not in PARTITIONS:
        raise UserError(
            f"no protocol '{protocol}'{nearest(protocol, PARTITIONS) or '; use ' + ', '.join(PARTITIONS)}"
        )
    return PARTITIONS[protocol]


def split(labels_N: Ints, protocol: str, fold: int = 0, seed: int = 0) -> Split:
    """The classes are shuffled by `seed` and dealt into as many partitions as the protocol has; `fold` is
    validated on.

    A pure function of its arguments. Trials to be compared share `seed`: another one is another deal of the
    classes.
    """
    parts = folds(protocol)
    if not 0 <= fold < parts:
        raise UserError(f"protocol '{protocol}' has the folds 0 to {parts - 1}; got {fold}.")
    classes = np.unique(labels_N)
    if len(classes) < 2 * parts:
        raise UserError(
            f"protocol '{protocol}' needs 2 classes in each of its {parts} partitions, {2 * parts} in all;"
            f" got {len(classes)}."
        )
    dealt = np.random.default_rng(seed).permutation(classes)
    validates_N = np.isin(labels_N, dealt[fold::parts])
    return Split(train_N=np.flatnonzero(~validates_N), validation_N=np.flatnonzero(validates_N))
