"""Classification by the proxies of a loss, of head and tail classes apart (seed 001, Table 5).

N images, C classes, D dimensions.
"""

from __future__ import annotations

from torch import Tensor

from dmltune.core.geometry import at_least_float32, l2_normalise


def class_accuracy(emb_ND: Tensor, labels_N: Tensor, proxies_CD: Tensor) -> Tensor:
    """Return the share of each class's images whose nearest proxy by cosine is its own, (C,).

    NaN for a class without an image. Losses with a softmax over ⟨x, p⟩ classify so; the norm of a point does
    not matter.
    """
    emb_ND = at_least_float32(emb_ND)
    right_N = (emb_ND @ l2_normalise(proxies_CD).to(emb_ND).mT).argmax(1) == labels_N
    classes = len(proxies_CD)
    right_C = labels_N.bincount(right_N.to(emb_ND.dtype), minlength=classes)
    return right_C / labels_N.bincount(minlength=classes)


def head_and_tail_accuracy(
    emb_ND: Tensor, labels_N: Tensor, proxies_CD: Tensor, tail_C: Tensor
) -> dict[str, float]:
    """Return the accuracy on the images of the head classes, of the tail classes (`tail_C`), and on all."""
    right_C = class_accuracy(emb_ND, labels_N, proxies_CD)
    count_C = labels_N.bincount(minlength=len(proxies_CD))
    groups = {"head": ~tail_C & (count_C > 0), "tail": tail_C & (count_C > 0), "all": count_C > 0}
    return {
        name: float((right_C[chosen_C] * count_C[chosen_C]).sum() / count_C[chosen_C].sum())
        for name, chosen_C in groups.items()
    }
