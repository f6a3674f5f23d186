"""Independent random numbers for every (seed, purpose, count)."""

from __future__ import annotations

import numpy as np

# A generator is seeded by (seed, purpose, count); a purpose is one of these.
CLASS_ORDER, CLASS_SAMPLES, IMAGE_ORDER, AUGMENTATION, POOL, POOL_AUGMENTATION = range(1, 7)
CATEGORY_ORDER, CATEGORY_SAMPLES = range(7, 9)


def generator(seed: int, purpose: int, count: int) -> np.random.Generator:
    """Independent random numbers for every (seed, purpose, count)."""
    return np.random.default_rng((seed, purpose, count))
