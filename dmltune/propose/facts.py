"""The facts that a proposal is made from: counts from the labels, sizes and colours of a few images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dmltune.data.images import ImageSet

SAMPLE = 24  # images that are read: 3 s for large photos, enough for a median
ENOUGH = 256  # pixels of the shorter side; no rule tells larger photos apart
GREY_SHARE = 0.9


@dataclass(frozen=True)
class Facts:
    """Facts of the training half; no test image is read."""

    path: str
    classes: int
    images: int
    least: int  # images of the smallest class
    typical: int  # the median
    most: int
    single: int  # classes with one image, which has no match
    shorter: int  # the median shorter side in pixels, at most ENOUGH
    grey: bool

    def __str__(self) -> str:
        """`6 classes, 120 images to train on, 20 a class; colour, shorter side 160 px`."""
        spread = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        side = f"{self.shorter} px" + (" or more" if self.shorter == ENOUGH else "")
        return (
            f"{self.classes:,} classes, {self.images:,} images to train on, {spread} a class;"
            f" {'grey' if self.grey else 'colour'}, shorter side {side}"
        )


def look(images: ImageSet, path: str) -> Facts:
    """Count labels and read SAMPLE images across the set, with at most ENOUGH pixels of the shorter side."""
    counts_C = np.bincount(images.labels_N, minlength=images.num_classes)
    chosen = np.unique(np.linspace(0, len(images) - 1, min(SAMPLE, len(images))).astype(np.int64))
    sample = images.read(chosen, ENOUGH)
    return Facts(
        path=path,
        classes=images.num_classes,
        images=len(images),
        least=int(counts_C.min()),
        typical=int(np.median(counts_C)),
        most=int(counts_C.max()),
        single=int((counts_C == 1).sum()),
        shorter=int(np.median([min(image_HWC.shape[:2]) for image_HWC in sample])),
        grey=float(np.mean([(image_HWC == image_HWC[:, :, :1]).all() for image_HWC in sample])) >= GREY_SHARE,
    )
