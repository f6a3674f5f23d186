"""A set of images, and parts of it."""

from __future__ import annotations

import numpy as np

from dmltune.data import catalog


def test_a_set_of_its_first_classes_reads_the_same_images() -> None:
    whole = catalog.load("glyphs", "train")
    small = whole.first_classes(20)
    assert small.num_classes == 20
    assert set(small.labels_N) == set(range(20))
    assert small.fingerprint != whole.fingerprint
    kept_N = np.flatnonzero(whole.labels_N < 20)
    for mine, theirs in zip(small.read([0, 5]), whole.read(kept_N[[0, 5]]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert whole.first_classes(None) is whole
