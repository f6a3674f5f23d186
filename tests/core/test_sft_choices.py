"""Spherical Feature Transform: whose feature becomes whose, and the three kinds of centres."""

from __future__ import annotations

import itertools

import pytest
import torch
from core.sft_points import CLASSES, DIM, batch, points, sft, with_centres

from dmltune.core import transforms
from dmltune.core.geometry import l2_normalise
from dmltune.core.random_numbers import uniform
from dmltune.core.transforms.sft import other_classes, rotate
from dmltune.errors import UserError


def test_another_class_is_drawn_uniformly() -> None:
    allowed = torch.tensor([True, False, True, True, False, True])
    own = torch.arange(CLASSES).repeat_interleave(6000)
    drawn = other_classes(allowed, own, uniform(torch.tensor(0), torch.tensor(0), len(own)))
    for c in range(CLASSES):
        counts = torch.bincount(drawn[own == c], minlength=CLASSES)
        others = [o for o in (0, 2, 3, 5) if o != c]
        assert sorted(counts.nonzero().flatten().tolist()) == others
        assert counts[others].tolist() == pytest.approx([6000 / len(others)] * len(others), rel=0.1)


def test_balanced_makes_one_feature_of_each_and_never_one_of_its_own_class() -> None:
    transform = with_centres()
    for seed in range(100):
        raw_BD, emb_BD, labels_B = batch(seed)
        generated_GD, labels_G = transform.generate(raw_BD, emb_BD, labels_B)
        assert len(labels_G) == len(generated_GD) == len(labels_B)
        assert not (labels_G == labels_B).any()


def test_unbalanced_never_takes_from_a_tail_class_and_never_gives_to_a_head_class() -> None:
    transform = with_centres(scheme="unbalanced")
    for seed in range(100):
        raw_BD, emb_BD, labels_B = batch(seed)
        generated_GD, labels_G = transform.generate(raw_BD, emb_BD, labels_B)
        heads = (labels_B == 0) | (labels_B == 2) | (labels_B == 4)
        assert set(labels_G.tolist()) <= {1, 3, 5}
        expected_GD = rotate(
            emb_BD[heads], transform.centres.values[labels_B[heads]], transform.centres.values[labels_G]
        )
        assert torch.equal(generated_GD, expected_GD)


def test_a_class_of_exactly_tail_below_samples_is_a_head_class() -> None:
    assert sft(scheme="unbalanced", tail_below=14).tail_C.tolist() == [False, True, False, True, False, False]
    assert sft(scheme="unbalanced", tail_below=15).tail_C.tolist() == [False, True, False, True, False, True]


@pytest.mark.parametrize("tail_below", [1, 2, 41])
def test_a_threshold_that_parts_nothing_is_refused(tail_below: int) -> None:
    with pytest.raises(UserError, match=f"got {tail_below}. Use a number from 3 to 40, or scheme: balanced"):
        sft(scheme="unbalanced", tail_below=tail_below)
    with pytest.raises(UserError, match=r"\(7 to 7 samples\) .* Use scheme: balanced"):
        transforms.load("sft", 3, DIM, torch.tensor([7, 7, 7]), scheme="unbalanced", tail_below=tail_below)


def test_the_unbalanced_scheme_alone_needs_the_class_counts() -> None:
    assert transforms.load("sft", 3, DIM).weight == 0.2
    with pytest.raises(ValueError, match="needs class_counts"):
        transforms.load("sft", 3, DIM, scheme="unbalanced")


@pytest.mark.parametrize("form", ["rotate", "degenerate"])
def test_classes_that_were_never_seen_neither_give_nor_get(form: str) -> None:
    transform = sft(form=form)
    seen: set[int] = set()
    batches = [[0, 0, 1], [1, 4, 4], [0, 2, 3], [5, 5, 5], [0, 1, 2]]
    for seed, labels in enumerate(batches * 4):
        raw_BD, labels_B = points(seed, 3, DIM), torch.tensor(labels)
        _, labels_G = transform.generate(raw_BD, l2_normalise(raw_BD), labels_B)
        assert len(labels_G) == sum(label in seen and bool(seen - {label}) for label in labels)
        assert set(labels_G.tolist()) <= seen
        transform.update_(raw_BD, l2_normalise(raw_BD), labels_B)
        seen.update(labels)


def test_pairs_of_centres_without_a_plane_are_skipped_on_the_sphere_only() -> None:
    centre_D = points(1, DIM)
    for form, expected in (("rotate", 0), ("degenerate", 40)):
        transform = sft(form=form)
        for sign in (-2.0, 3.0):
            transform.centres.values.zero_()
            transform.centres.values[0], transform.centres.values[3] = centre_D, sign * centre_D
            raw_BD = points(2, 40, DIM)
            made_GD, labels_G = transform.generate(raw_BD, l2_normalise(raw_BD), torch.zeros(40).long())
            assert len(made_GD) == len(labels_G) == expected


def test_the_degenerate_form_keeps_centres_of_raw_features_and_the_rotation_of_normalised_ones() -> None:
    raw_BD, labels_B = 7 * points(1, 3, DIM), torch.tensor([0, 0, 1])
    for form, x_BD in (("rotate", l2_normalise(raw_BD)), ("degenerate", raw_BD), ("ftl", raw_BD)):
        transform = sft(form=form)
        transform.update_(raw_BD, l2_normalise(raw_BD), labels_B)
        torch.testing.assert_close(transform.centres.values[0], (x_BD[0] + x_BD[1]) / 3)


def test_ftl_waits_for_its_subspace_and_with_all_the_energy_is_the_degenerate_form() -> None:
    made = []
    for parameters in (
        {"form": "degenerate"},
        {"form": "ftl", "energy": 1.0},
        {"form": "ftl", "energy": 0.5},
    ):
        torch.manual_seed(0)
        transform = sft(**parameters)
        transform.update_(*batch(0))
        if parameters["form"] == "ftl":
            assert len(transform.generate(*batch(1))[1]) == 0
            transform.draws.zero_()
        transform.update_(*batch(1))
        made.append(transform.generate(*batch(2)))
    assert all(torch.equal(labels, made[0][1]) for _, labels in made)
    torch.testing.assert_close(made[1][0], made[0][0], rtol=0, atol=1e-10)
    assert float((made[2][0] - made[0][0]).norm()) > 0.1


def test_random_centres_are_unit_directions_that_never_move() -> None:
    transform = sft(centres="random")
    before = transform.centres.values.clone()
    torch.testing.assert_close(
        before.norm(dim=1), torch.ones(CLASSES, dtype=torch.float64), rtol=1e-6, atol=0
    )
    assert len(transform.generate(*batch(0))[1]) == 60
    transform.update_(*batch(0))
    assert torch.equal(transform.centres.values, before)


def test_a_picked_centre_is_a_sample_of_its_class_in_the_latest_batch_and_each_has_its_turn() -> None:
    transform, (raw_BD, emb_BD, labels_B) = sft(centres="pick"), batch(4, size=14)
    turns: set[int] = set()
    for _ in range(200):
        transform.update_(raw_BD, emb_BD, labels_B)
        for c in set(labels_B.tolist()):
            (place,) = (emb_BD == transform.centres.values[c]).all(1).nonzero().flatten().tolist()
            assert labels_B[place] == c
            turns.add(place)
    assert turns == set(range(14))


def test_every_form_works_with_every_scheme_and_every_estimate_of_centres() -> None:
    options = itertools.product(
        ("rotate", "degenerate", "ftl"), ("balanced", "unbalanced"), ("running", "random", "pick")
    )
    for form, scheme, centres in options:
        transform = sft(form=form, scheme=scheme, centres=centres)
        for seed in range(3):
            transform.update_(*batch(seed))
        generated_GD, labels_G = transform.generate(*batch(9))
        assert len(labels_G) > 0
        assert generated_GD.isfinite().all()
