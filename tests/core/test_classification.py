"""Accuracy of head and tail classes against loops."""

from __future__ import annotations

import math

import pytest
import torch

from dmltune.core.classification import class_accuracy, head_and_tail_accuracy

CLASSES, DIM = 6, 3


def test_the_accuracies_are_those_of_loops_over_images() -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        emb_ND, proxies_CD = torch.randn(80, DIM) * 3, torch.randn(CLASSES, DIM) * 5
        labels_N = torch.randint(CLASSES - 1, (80,))  # the last class has no image
        tail_C = torch.tensor([True, False, True, False, False, True])
        right: dict[int, list[bool]] = {label: [] for label in range(CLASSES)}
        for point, label in zip(emb_ND, labels_N.tolist(), strict=True):
            cosines = [float(torch.cosine_similarity(point, proxy, dim=0)) for proxy in proxies_CD]
            right[label].append(cosines.index(max(cosines)) == label)
        found_C = class_accuracy(emb_ND, labels_N, proxies_CD)
        for label in range(CLASSES - 1):
            assert found_C[label].item() == pytest.approx(sum(right[label]) / len(right[label]))
        assert math.isnan(found_C[-1])
        head, tail = right[1] + right[3] + right[4], right[0] + right[2]
        found = head_and_tail_accuracy(emb_ND, labels_N, proxies_CD, tail_C)
        assert found["head"] == pytest.approx(sum(head) / len(head))
        assert found["tail"] == pytest.approx(sum(tail) / len(tail))
        assert found["all"] == pytest.approx((sum(head) + sum(tail)) / 80)
