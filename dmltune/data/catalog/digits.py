"""digits: 1,797 handwritten digits of 8 × 8 pixels that come with scikit-learn.

Nothing is downloaded. 0 to 4 train, 5 to 9 test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dmltune.data.catalog._small import half
from dmltune.data.images import ImageSet, Part

BRIGHTEST = 16  # of the 17 values a pixel has
PUBLISHED: dict[Part, tuple[int, int]] = {"train": (901, 5), "test": (896, 5)}  # images, classes


def load(part: Part, root: Path | None = None) -> ImageSet:
    """Load a part; `root` is not used."""
    from sklearn.datasets import load_digits  # nothing else here needs scikit-learn

    pictures_NHW, numbers_N = load_digits(return_X_y=True)
    pixels_NHWC = np.rint(pictures_NHW.reshape(-1, 8, 8, 1) * (255 / BRIGHTEST)).astype(np.uint8)
    return half("digits", part, pixels_NHWC, numbers_N, [f"digit {number}" for number in range(10)])
