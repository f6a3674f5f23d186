"""What a model costs: counted, measured once for each architecture, without a trace in the training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from dmltune.core.embedder import Embedder
from dmltune.experiment import Experiment, load_experiment
from dmltune.train.build import build_embedder
from dmltune.train.model_costs import architecture_of, model_costs

CPU = torch.device("cpu")


def model(space: str, *overrides: str) -> tuple[Experiment, Embedder]:
    experiment = load_experiment(space, overrides).reference_experiment()
    return experiment, build_embedder(experiment, "l2")


def test_size_weights_and_time_of_the_model_that_is_used() -> None:
    experiment, embedder = model("glyphs", "embedding.dim=32")
    embedder.train()
    before = torch.get_rng_state(), {name: t.clone() for name, t in embedder.state_dict().items()}
    _, costs = model_costs(experiment, embedder, CPU, {})
    assert costs["embedding_size"] == 32
    assert costs["parameters"] == round(sum(w.numel() for w in embedder.parameters()) / 1e6, 4)
    assert 0.01 < costs["ms_per_image"] < 100
    assert embedder.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert all(torch.equal(tensor, before[1][name]) for name, tensor in embedder.state_dict().items())


def test_a_known_architecture_is_not_measured_again() -> None:
    experiment, embedder = model("glyphs")
    known = {architecture_of(experiment, embedder): {"ms_per_image": 7.0}}
    assert model_costs(experiment, embedder, CPU, known)[1] == {"ms_per_image": 7.0}


@pytest.mark.parametrize(
    ("overrides", "same"),
    [
        (["optimizer.lr=0.1"], True),
        (["pooling.epsilon=2.0"], True),  # a real number of a pooling
        (["pooling.prototypes=16"], False),
        (["embedding.dim=16"], False),
        (["data.size=24"], False),
    ],
)
def test_what_makes_another_architecture(overrides: Sequence[str], same: bool) -> None:
    first, second = (architecture_of(*model("glyphs-gsp", *each)) for each in ([], overrides))
    assert (first == second) == same
