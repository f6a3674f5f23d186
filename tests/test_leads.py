from __future__ import annotations

import numpy as np
import pytest
import torch

from dmltune.core.retrieval import retrieval_metrics
from dmltune.data.images import ImageSet
from dmltune.evaluation.leads import QueryScores

CLASSES, EACH = 30, 8


def images() -> ImageSet:
    labels_N = np.repeat(np.arange(CLASSES), EACH)
    return ImageSet(
        "squares", "test", labels_N, tuple(map(str, range(CLASSES))), "f", lambda indices, side: []
    )


def points(seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, 6, generator=generator).repeat_interleave(EACH, 0)
    return centres + spread * torch.randn(CLASSES * EACH, 6, generator=generator)


def test_the_lead_is_the_difference_in_map_and_its_interval_that_of_classes_drawn_anew() -> None:
    scores, everything = QueryScores(), range(CLASSES * EACH)
    good, poor = points(0, 0.8), points(1, 1.2)
    for name, emb_ND in (("good", good), ("poor", poor), ("same", good)):
        scores.add(name, emb_ND, images(), everything)
    labels = torch.from_numpy(images().labels_N)
    expected = retrieval_metrics(good, labels)["map_at_r"] - retrieval_metrics(poor, labels)["map_at_r"]
    lead = scores.lead("good", "poor")
    assert lead["difference"] == pytest.approx(expected, abs=1e-9)
    assert scores.lead("good", "same") == {"difference": 0.0, "low": 0.0, "high": 0.0}

    rng, drawn = np.random.default_rng(0), []
    gap_C = (scores.precision_Q["good"] - scores.precision_Q["poor"]).reshape(CLASSES, EACH).mean(1).numpy()
    for _ in range(4000):
        drawn.append(rng.choice(gap_C, CLASSES).mean())
    width = np.quantile(drawn, 0.975) - np.quantile(drawn, 0.025)
    assert lead["low"] < expected < lead["high"]
    assert lead["high"] - lead["low"] == pytest.approx(width, rel=0.15)
