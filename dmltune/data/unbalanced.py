"""The unbalanced experiment of seed 001, §4.2: many images of head classes, a few of tail classes.

A classifier is trained and tested on the same classes: the images that are not drawn for training test it.

Legend: N images, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmltune.data.images import Ints
from dmltune.data.splits import Split
from dmltune.errors import UserError

HEAD_CLASSES, TAIL_CLASSES = 1500, 945  # of the text's 2,445 classes
HEAD_EACH, TAIL_EACH = 50, 5  # training images of a class
FEWEST = 101  # images of a class that takes part


@dataclass(frozen=True, eq=False)
class UnbalancedSplit:
    """Training and test images, and which of the training classes are tail classes.

    `tail_C` is in the order of the labels that training sees: 0 … number of chosen classes − 1.
    """

    images: Split
    tail_C: NDArray[np.bool_]


def unbalanced_split(
    labels_N: Ints,
    *,
    head_each: int = HEAD_EACH,
    tail_each: int = TAIL_EACH,
    fewest: int = FEWEST,
    seed: int = 0,
) -> UnbalancedSplit:
    """Draw `head_each` training images of head classes and `tail_each` of tail classes; the others test.

    The classes with `fewest` images or more take part. A random share of them, 1,500 of 2,445, is the head.
    """
    if not 0 < tail_each < head_each < fewest:
        raise ValueError(
            f"0 < tail_each < head_each < fewest expected; got {tail_each}, {head_each}, {fewest}"
        )
    classes, counts_C = np.unique(labels_N, return_counts=True)
    classes = classes[counts_C >= fewest]
    if len(classes) < 4:
        raise UserError(
            f"an unbalanced set needs 4 classes with {fewest} images or more; got {len(classes)}. "
            "Use a larger data set, or fewer images of a class."
        )
    rng = np.random.default_rng(seed)
    heads = min(len(classes) - 2, max(2, round(len(classes) * HEAD_CLASSES / (HEAD_CLASSES + TAIL_CLASSES))))
    tail_C = np.ones(len(classes), dtype=np.bool_)
    tail_C[rng.permutation(len(classes))[:heads]] = False
    drawn: list[Ints] = []
    rest: list[Ints] = []
    for label, is_tail in zip(classes, tail_C, strict=True):
        images = rng.permutation(np.flatnonzero(labels_N == label))
        each = tail_each if is_tail else head_each
        drawn.append(images[:each])
        rest.append(images[each:])
    return UnbalancedSplit(Split(np.sort(np.concatenate(drawn)), np.sort(np.concatenate(rest))), tail_C)
