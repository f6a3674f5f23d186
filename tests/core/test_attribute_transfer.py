"""Attributes fitted on some classes and tried on others, against loops over classes and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dmltune.core.attribute_transfer import attribute_transfer, class_attributes


def problem(seed: int, classes: int = 7, each: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)[
        torch.randperm(classes * each, generator=generator)
    ]
    attributes = torch.rand(len(labels), 3, generator=generator, dtype=torch.float64)
    means = torch.randn(classes, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(labels), 5, generator=generator, dtype=torch.float64)
    return attributes / attributes.sum(1, keepdim=True), means[labels] + 0.3 * noise, labels


def by_loops(
    z: np.ndarray, x: np.ndarray, y: np.ndarray, half: int, repeats: int, ridge: float
) -> list[float]:
    """Ridge regression as least squares with √ridge·I below the samples, one draw after another."""
    generator, hits = torch.Generator().manual_seed(0), [0, 0]
    mean = {c: x[y == c].mean(0) for c in set(y.tolist())}
    for _ in range(repeats):
        order = torch.randperm(len(mean), generator=generator).tolist()
        rows = [i for i in range(len(y)) if y[i] in order[:half]]
        left = np.vstack([z[rows], np.sqrt(ridge) * np.eye(z.shape[1])])
        right = np.vstack([[mean[y[i]] for i in rows], np.zeros((z.shape[1], x.shape[1]))])
        fitted = np.linalg.lstsq(left, right, rcond=None)[0]
        others = order[half : 2 * half]
        for own in others:
            guess = z[y == own].mean(0) @ fitted
            away = [np.linalg.norm(guess - mean[c]) for c in others]
            angle = [guess @ mean[c] / np.linalg.norm(guess) / np.linalg.norm(mean[c]) for c in others]
            hits[0] += others[int(np.argmin(away))] == own
            hits[1] += others[int(np.argmax(angle))] == own
    return [count / repeats / half for count in hits]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ridge", [0.05, 5.0])
def test_the_shares_are_those_of_loops(seed: int, ridge: float) -> None:
    attributes, points, labels = problem(seed)
    found = attribute_transfer(attributes, points, labels, half=3, repeats=30, ridge=ridge)
    expected = by_loops(attributes.numpy(), points.numpy(), labels.numpy(), 3, 30, ridge)
    assert [found.euclidean, found.cosine] == pytest.approx(expected)
    assert found.chance == pytest.approx(1 / 3)


def test_attributes_that_determine_the_points_transfer_and_shuffled_ones_do_not() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(12).repeat_interleave(20)
    z = torch.softmax(3 * torch.randn(12, 4, generator=generator), 1)[labels]
    points = z @ torch.randn(4, 16, generator=generator)
    assert attribute_transfer(z, points, labels, repeats=200, ridge=1e-6).euclidean > 0.99
    shuffled = z[torch.randperm(len(z), generator=generator)]
    assert attribute_transfer(shuffled, points, labels, repeats=200).euclidean < 0.35


def test_the_attributes_of_a_class_are_the_mean_of_those_of_its_samples() -> None:
    attributes, _, labels = problem(0)
    found = class_attributes(attributes, labels)
    for label in range(7):
        torch.testing.assert_close(found[label], attributes[labels == label].mean(0))


def test_too_few_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 10 classes; got 7"):
        attribute_transfer(*problem(0))
