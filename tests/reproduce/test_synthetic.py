"""The synthetic study: its samples, its trainings, its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.driving import Place

from dmltune.core.convex import convex_hull_overlap
from dmltune.reproduce import synthetic


def test_a_sample_has_fifty_tokens_of_its_class_and_of_the_shared_ones_only() -> None:
    labels_B = torch.arange(16).repeat_interleave(200)
    chosen_BN = synthetic.sample_tokens(labels_B, torch.Generator().manual_seed(0))
    assert chosen_BN.shape == (3200, 50)
    own_BN = chosen_BN // 4 == labels_B.unsqueeze(1)
    shared_BN = chosen_BN // 4 == 16
    assert bool((own_BN ^ shared_BN).all())
    share_B = own_BN.double().mean(1)
    assert float(share_B.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(share_B.std()) == pytest.approx(0.1, abs=0.01)
    assert len(chosen_BN.unique()) == 4 * 17  # every token is drawn


def test_generalized_sum_pooling_soon_tells_classes_apart_that_average_pooling_does_not() -> None:
    gap, gsp = (synthetic.train(pooling, seed=0, max_steps=600) for pooling in synthetic.POOLINGS)
    assert gsp.map_at_r > gap.map_at_r + 0.2
    for outcome in (gap, gsp):
        assert float(outcome.tokens_TD.abs().max()) == pytest.approx(synthetic.BOUND)
        assert outcome.points_in_foreign_hulls == convex_hull_overlap(outcome.emb_ND, outcome.labels_N)
    assert gap.points_in_foreign_hulls > 0.3
    assert gap.overlapping_hulls > gsp.overlapping_hulls


def test_a_training_is_a_function_of_its_seed() -> None:
    one, again, other = (synthetic.train("gap", seed, max_steps=60) for seed in (3, 3, 4))
    assert one.map_at_r == again.map_at_r
    assert torch.equal(one.tokens_TD, again.tokens_TD)
    assert not torch.equal(one.tokens_TD, other.tokens_TD)


def test_training_ends_after_thirty_epochs_without_a_better_validation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthetic, "LEARNING_RATE", 0.0)
    outcome = synthetic.train("gap", seed=0)
    assert (outcome.step, outcome.steps) == (0, synthetic.EPOCH * synthetic.PATIENCE)


def test_the_command_writes_the_picture_and_one_document(place: Place) -> None:
    code, out, errors = place.run("reproduce", "synthetic", "--tiny", "--name", "few", "-f", "json")
    assert code == 0, errors
    document = json.loads(out)
    rows = document["tables"][0]["rows"]
    assert [row["pooling"] for row in rows] == ["gap", "gsp"]
    difference = 100 * (rows[1]["MAP@R"] - rows[0]["MAP@R"])
    assert document["answers"][0] == f"GSP − GAP: {difference:+.1f} points (the thesis: about 70)."
    (picture,) = map(Path, document["pictures"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    run = place.runs("few")["parent"]
    assert run.info.status == "FINISHED"
