"""What the figures compute beside trainings, against slow oracles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from dmltune.core.poolings.gsp import generalized_sum_pool
from dmltune.reproduce.figures import (
    fastap_fig3,
    fig5_2,
    fig5_9,
    fig5_12b,
    screen5_4,
    sft_fig2,
    sft_fig4,
    xbm_drift,
)
from dmltune.reproduce.figures._sweep import Mean, cell_name, difference
from dmltune.reproduce.paper_tables import load_table


@pytest.mark.parametrize("mu", [0.13, 0.5, 1.0])
def test_the_weights_of_the_linear_programme_are_those_of_a_general_solver(mu: float) -> None:
    """(P1) with the variables ρ (N) and π (M × N)."""
    count, prototypes = 6, 2
    cost = torch.rand(prototypes, count, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    whole = np.hstack([np.eye(count), np.tile(np.eye(count), prototypes)])
    sums = np.hstack([np.zeros(count), np.ones(count * prototypes)])
    found = linprog(
        np.concatenate([np.zeros(count), cost.numpy().ravel()]),
        A_eq=np.vstack([whole, sums]),
        b_eq=[*([1 / count] * count), mu],
    )
    expected = (1 / count - found.x[:count]) / mu
    np.testing.assert_allclose(fig5_2.linear_programme_weights(cost, mu), expected, atol=1e-9)


def test_the_map_of_colours_has_the_share_that_the_text_says_and_smooth_weights_sum_to_one() -> None:
    colours, wanted = fig5_2.coloured_map()
    assert colours.shape == (10, 10, 3)
    assert wanted.double().mean() == 0.5
    assert (colours.flatten(0, 1).argmax(1) != 1).view(10, 10).equal(wanted)
    cost = torch.rand(2, 9, dtype=torch.float64)
    assert float(fig5_2.smooth_weights(cost, 0.4, 5.0).sum()) == pytest.approx(1)


def test_unrolled_passes_have_the_values_of_the_pooling_and_at_the_end_its_gradient() -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    prototypes = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    for passes in (2, 400):
        mine = fig5_9.unrolled_pool(features, prototypes, 0.4, 3.0, passes)
        theirs = generalized_sum_pool(features, prototypes, 0.4, 3.0, passes)
        torch.testing.assert_close(mine[0], theirs.pooled_BD)
        torch.testing.assert_close(mine[1], theirs.attributes_BM)
    weights = torch.randn(2, 3, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((each * weights).sum(), (features, prototypes))
        for each in (mine[1], theirs.attributes_BM)
    ]
    torch.testing.assert_close(*gradients)


def test_the_screening_is_the_half_fraction_in_which_the_last_level_is_the_product_of_the_others() -> None:
    design = screen5_4.levels(load_table("5.4"))
    assert sorted(level[:3] for level in design.values()) == sorted(itertools.product((-1, 1), repeat=3))
    assert all(a * b * c == d for a, b, c, d in design.values())


def test_effects_are_twice_the_coefficients_of_a_regression() -> None:
    design = screen5_4.levels(load_table("5.4"))
    scores = {row: 0.4 + 0.01 * number**1.5 for number, row in enumerate(design)}
    matrix = np.array([[1, *level] for level in design.values()])
    coefficients = np.linalg.lstsq(matrix, np.array(list(scores.values())), rcond=None)[0][1:]
    assert list(screen5_4.effects(scores, design).values()) == pytest.approx(2 * coefficients)


def test_epochs_to_a_level_are_read_off_the_line_between_two_validations() -> None:
    curve = fastap_fig3.Curve((0.0, 1.0, 2.0, 4.0), (0.1, 0.3, 0.2, 0.6))
    assert curve.reaches(0.05) == 0.0
    assert curve.reaches(0.2) == pytest.approx(0.5)
    assert curve.reaches(0.5) == pytest.approx(3.5)
    assert curve.reaches(0.7) is None


def test_drift_is_the_mean_squared_way_of_each_point() -> None:
    points = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0))
    for span in (1, 3):
        expected = [
            np.mean([float(sum((points[s, b] - points[s - span, b]) ** 2)) for b in range(4)])
            for s in range(span, 5)
        ]
        assert xbm_drift.drift(points, span).tolist() == pytest.approx(expected)


def test_principal_components_have_the_largest_variances_in_order_and_no_correlation() -> None:
    points = torch.randn(40, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    points *= torch.tensor([1.0, 5, 2, 9, 3, 4])
    components = sft_fig2.principal_components(points, 3)
    largest = torch.linalg.eigvalsh(points.T.cov()).flip(0)[:3]
    torch.testing.assert_close(components.T.cov(), largest.diag())


def test_the_largest_classes_come_first() -> None:
    labels = torch.tensor([0, 1, 1, 1, 2, 2, 4, 4])
    assert sft_fig2.largest_classes(labels, 3).tolist() == [1, 2, 4]


def test_histograms_overlap_by_their_common_area() -> None:
    assert sft_fig4.overlap(torch.tensor([2, 2, 0]), torch.tensor([0, 5, 15])) == pytest.approx(0.25)
    assert sft_fig4.overlap(torch.tensor([3, 1]), torch.tensor([30, 10])) == pytest.approx(1)


def test_names_of_cells_are_plain_and_a_difference_says_its_noise() -> None:
    assert cell_name(("C2", "gsp+gmp", 0.5, 16)) == "C2-gsp-gmp-0.5-16"
    assert difference(Mean(0.5, 0.01, 1), Mean(0.48, 0.03, 1)) == "+2.0 points"
    assert difference(Mean(0.5, 0.01, 3), Mean(0.48, 0.03, 3)) == "+2.0 points (sd of the seeds 3.0)"


def test_a_pooling_is_compared_with_average_pooling_model_by_model() -> None:
    by_model = {
        ("C2", "gap"): {(0, 0): 0.20, (1, 0): 0.40, (2, 0): 0.50},
        ("C2", "gsp"): {(0, 0): 0.21, (1, 0): 0.43},
        ("PNCA", "gsp"): {(0, 0): 0.21},
    }
    assert fig5_12b.gain(("C2", "gsp"), by_model) == "+2.0 ± 1.4"
    assert fig5_12b.gain(("C2", "gap"), by_model) is None
    assert fig5_12b.gain(("PNCA", "gsp"), by_model) is None
