"""Class-disjoint splits into training and validation (method-facts, "Protocols").

Protocol `conventional` validates on the test half. `within` trains on all classes of both halves and
validates on other images of the same classes, as in Fig. 3.2 and chapter 4 of the thesis: it leaves nothing
to test on. `all_classes` trains on every image of both halves, for serving; what it measures meanwhile are
images that it trains on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmltune.data.images import ImageSet, Ints, Pixels, short_hash
from dmltune.errors import UserError, nearest

PARTITIONS = {
    "ablation": 3,
    "fair": 4,
    "tuning": 5,
    "halves": 2,  # of no paper: for data with 4 or 5 training classes
}  # validation takes one partition of the classes, training the rest
CONVENTIONAL = "conventional"
WITHIN, WITHIN_PARTS = "within", 5  # a fifth of the images of each class validates
ALL_CLASSES, WATCHED = "all_classes", 2000  # of the images that train, so many are measured
BOTH_HALVES = (CONVENTIONAL, WITHIN, ALL_CLASSES)  # protocols that read the test half
PROTOCOLS = (*PARTITIONS, *BOTH_HALVES)
FEWEST = 2 * min(PARTITIONS.values())  # training classes that any protocol can split


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending indices of training and of validation images, without a common class but in two protocols.

    `within` shares classes, `all_classes` images.
    """

    train_N: Ints
    validation_N: Ints


def folds(protocol: str) -> int:
    """Return the number of folds of a protocol."""
    if protocol in BOTH_HALVES:
        return WITHIN_PARTS if protocol == WITHIN else 1
    if protocol not in PARTITIONS:
        raise UserError(
            f"no protocol '{protocol}'{nearest(protocol, PROTOCOLS) or '; use ' + ', '.join(PARTITIONS)}"
        )
    return PARTITIONS[protocol]


def split(labels_N: Ints, protocol: str, fold: int = 0, seed: int = 0) -> Split:
    """Deal the classes, shuffled by `seed`, into partitions, and validate on `fold`.

    Trials to be compared must share `seed`: it decides which classes are in a partition.
    """
    parts = folds(protocol)
    if protocol == CONVENTIONAL:
        raise UserError(
            "protocol 'conventional' validates on the test classes, and a training half has none; use "
            + ", ".join(PARTITIONS)
        )
    if not 0 <= fold < parts:
        raise UserError(f"protocol '{protocol}' has the folds 0 to {parts - 1}; got {fold}.")
    if protocol == WITHIN:
        return _split_images(labels_N, fold, seed)
    if protocol == ALL_CLASSES:
        return Split(np.arange(len(labels_N)), _watched(labels_N, seed))
    classes = np.unique(labels_N)
    if len(classes) < 2 * parts:
        raise UserError(
            f"protocol '{protocol}' needs 2 classes in each of its {parts} partitions, {2 * parts} in all;"
            f" got {len(classes)}. {_instead(len(classes))}"
        )
    dealt = np.random.default_rng(seed).permutation(classes)
    validates_N = np.isin(labels_N, dealt[fold::parts])
    return Split(train_N=np.flatnonzero(~validates_N), validation_N=np.flatnonzero(validates_N))


def _split_images(labels_N: Ints, fold: int, seed: int) -> Split:
    """Deal the images of each class, shuffled by `seed`, into parts, and validate on `fold`."""
    shuffled = np.random.default_rng(seed).permutation(len(labels_N))
    by_class = shuffled[np.argsort(labels_N[shuffled], kind="stable")]
    first_C, counts_C = np.unique(labels_N[by_class], return_index=True, return_counts=True)[1:]
    validates_N = np.zeros(len(labels_N), dtype=bool)
    place_N = np.arange(len(labels_N)) - np.repeat(first_C, counts_C)
    validates_N[by_class] = place_N % WITHIN_PARTS == fold
    return Split(train_N=np.flatnonzero(~validates_N), validation_N=np.flatnonzero(validates_N))


def _watched(labels_N: Ints, seed: int) -> Ints:
    """Return the ascending indices of the images of some classes, WATCHED of them or a few more."""
    counts_C = np.bincount(labels_N)
    order_C = np.random.default_rng(seed).permutation(len(counts_C))
    enough = int(np.searchsorted(counts_C[order_C].cumsum(), WATCHED)) + 1
    return np.flatnonzero(np.isin(labels_N, order_C[:enough]))


def _instead(classes: int) -> str:
    """Return a protocol for so many training classes: the one that trains on most of them."""
    possible = [name for name, parts in PARTITIONS.items() if 2 * parts <= classes]
    if not possible:
        return f"Add classes: {FEWEST} to train on are the fewest, with objective.protocol=halves."
    best = max(possible, key=PARTITIONS.__getitem__)
    return f"Use objective.protocol={best}, which has {PARTITIONS[best]}."


@dataclass(frozen=True, eq=False)
class Monitored(ImageSet):
    """Both halves of a data set as one, for protocols `conventional` and `within`.

    With `conventional` the first `trained` classes train; training is stopped on the others, the test
    classes.
    """

    trained: int = 0

    def split(self) -> Split:
        trains_N = self.labels_N < self.trained
        return Split(train_N=np.flatnonzero(trains_N), validation_N=np.flatnonzero(~trains_N))


def monitored(train: ImageSet, test: ImageSet) -> Monitored:
    """Join the training half and the test half, which is validated on.

    Where the test half has separate queries (In-Shop, VehicleID), validation has them too.
    """
    first = len(train)

    def read(indices: Ints, side: int | None) -> list[Pixels]:
        is_train = indices < first
        train_images = iter(train.reader(indices[is_train], side))
        test_images = iter(test.reader(indices[~is_train] - first, side))
        return [next(train_images if from_train else test_images) for from_train in is_train]

    query_N = None
    if test.query_N is not None:
        query_N = np.concatenate([np.zeros(first, dtype=bool), test.query_N])
    names, category_N = _categories(train, test)
    return Monitored(
        train.name,
        train.part,
        np.concatenate([train.labels_N, test.labels_N + train.num_classes]),
        (*train.class_names, *test.class_names),
        short_hash(f"{train.fingerprint} {test.fingerprint}".encode()),
        read,
        category_N,
        names,
        train.margin,
        f"{train.key}-{test.key}" if train.key and test.key else "",
        query_N,
        skipped=(*train.skipped, *test.skipped),
        trained=train.num_classes,
    )


def _categories(train: ImageSet, test: ImageSet) -> tuple[tuple[str, ...], Ints | None]:
    """Return the categories of both, joined by name; −1 stays "not known"."""
    if train.category_N is None or test.category_N is None:
        return (), None
    names = tuple(dict.fromkeys((*train.category_names, *test.category_names)))
    place = np.array([names.index(name) for name in test.category_names] + [-1], dtype=np.int64)
    return names, np.concatenate([train.category_N, place[test.category_N]])
