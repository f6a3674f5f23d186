"""Do two images show the same? The accuracy and the rates of a list of pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmltune.core.embedder import Embedder
from dmltune.core.verification import accuracy, tar_at_far
from dmltune.data.images import ImageSet
from dmltune.data.pair_lists import Pairs
from dmltune.data.pairs import pair_images, read_pairs, scores
from dmltune.errors import UserError
from dmltune.train.inference import embed

FARS = (1e-3, 1e-4, 1e-5)
FOLDS = 10
MOST_RANKED = 1_000_000  # pairs whose accuracy is told; longer lists are about rates of wrong acceptances


@dataclass(frozen=True)
class PairList:
    """A list of pairs that can be measured: both kinds are in it, and every image is there."""

    path: Path
    pairs: Pairs
    images: ImageSet

    @classmethod
    def read(cls, path: Path) -> PairList:
        pairs = read_pairs(path)
        same, count = int(pairs.same_P.sum()), len(pairs.same_P)
        if not 0 < same < count or count < FOLDS:
            raise UserError(
                f"{path} must have {FOLDS} pairs or more, of both kinds; got {same} of the same and "
                f"{count - same} of two"
            )
        return cls(path, pairs, pair_images(pairs, path))

    def verified(self, embedder: Embedder, size: int, margin: float) -> dict[str, Any]:
        """Return accuracy over folds and TAR at FAR by cosine similarity.

        The images are seen with this `margin`, aligned ones whole.
        """
        images = self.images if self.pairs.landmarks else replace(self.images, margin=margin)
        emb_FD = embed(embedder, images, range(len(images)), size)
        score_P, same_P = scores(self.pairs, emb_FD.numpy()), self.pairs.same_P
        document: dict[str, Any] = {"file": str(self.path), "images": len(images)}
        document |= {"same": int(same_P.sum()), "other": int((~same_P).sum())}
        if self.pairs.landmarks is not None:
            document["landmarks"] = str(self.pairs.landmarks)
        if len(same_P) <= MOST_RANKED:
            mean, spread = accuracy(score_P, same_P, FOLDS)
            document |= {"accuracy": mean, "accuracy_sd": spread, "folds": FOLDS}
        rates = tar_at_far(score_P, same_P, FARS)
        document["tar_at_far"] = {f"{far:g}": rate for far, rate in zip(FARS, rates, strict=True)}
        return document


def as_metrics(verified: dict[str, Any]) -> dict[str, float]:
    """`pairs_accuracy`, `pairs_tar_at_far_0.001`."""
    rates = {f"pairs_tar_at_far_{far}": rate for far, rate in verified["tar_at_far"].items()}
    return rates | ({"pairs_accuracy": verified["accuracy"]} if "accuracy" in verified else {})
