"""Ranks with ties are those of scipy.stats, which is not loaded for them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from dmltune.search.rank_correlation import mean_ranks


@pytest.mark.parametrize("seed", range(5))
def test_tied_values_have_their_mean_rank(seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 6, size=3 + 4 * seed).astype(float)
    np.testing.assert_allclose(mean_ranks(values), rankdata(values))
    assert mean_ranks(np.array([2.0, 1.0, 2.0, 5.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
