"""pml/<Class>: every loss of the installed pytorch-metric-learning by name, its constructor as the schema."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from dmltune.core import components, losses
from dmltune.core.geometry import l2_normalise
from dmltune.errors import UserError

room = pytest.importorskip("pytorch_metric_learning.losses")
miners = importlib.import_module("pytorch_metric_learning.miners")

CLASSES, DIM = 5, 6
NAMES = sorted(name for name, member in vars(room).items() if isinstance(member, type))
REFUSED = {
    "BaseLossWrapper",
    "BaseMetricLossFunction",
    "CrossBatchMemory",
    "EmbeddingRegularizerMixin",
    "GenericPairLoss",
    "InstanceLoss",
    "ManifoldLoss",
    "MultipleLosses",
    "SelfSupervisedLoss",
    "SmoothAPLoss",
    "VICRegLoss",
    "WeightRegularizerMixin",
}
USABLE = [name for name in NAMES if name not in REFUSED]
NEEDED: dict[str, dict[str, Any]] = {"RankedListLoss": {"margin": 0.4, "Tn": 1}}


def load(name: str, **parameters: Any) -> Any:
    torch.manual_seed(0)
    chosen = {**NEEDED.get(name, {}), **parameters}
    return losses.load(f"pml/{name}", num_classes=CLASSES, dim=DIM, **chosen)


def batch(seed: int = 0, size: int = 20) -> tuple[Tensor, Tensor]:
    points = torch.randn(size, DIM, generator=torch.Generator().manual_seed(seed))
    return l2_normalise(points), torch.arange(size) % CLASSES


def tunable(name: str) -> dict[str, inspect.Parameter]:
    return components.parameters(components.find("losses", f"pml/{name}"))


@pytest.mark.parametrize("name", USABLE)
def test_every_loss_gives_a_finite_scalar_and_gradient_batch_after_batch(name: str) -> None:
    loss = load(name)
    for seed in range(3):
        emb_BD, labels_B = batch(seed)
        emb_BD.requires_grad_()
        value = loss(emb_BD, labels_B)
        torch.autograd.backward(value)
        assert value.dim() == 0
        assert value.isfinite()
        assert emb_BD.grad is not None
        assert emb_BD.grad.isfinite().all()
        assert emb_BD.grad.abs().sum() > 0
    for weight in loss.parameters():
        assert weight.grad is not None
        assert weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_work_here_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}") as caught:
        components.find("losses", f"pml/{name}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", USABLE)
def test_a_value_equals_that_of_the_class_itself(name: str) -> None:
    emb_BD, labels_B = batch()
    ours = load(name)
    theirs = copy.deepcopy(ours.loss)
    assert type(theirs) is getattr(room, name)
    assert torch.equal(ours(emb_BD, labels_B), theirs(emb_BD, labels_B))


@pytest.mark.parametrize("name", USABLE)
def test_its_state_survives_a_round_trip(name: str) -> None:
    loss, other = load(name), load(name)
    loss(*batch(1))
    for weight in other.parameters():
        torch.nn.init.ones_(weight)
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other(*batch(2)), loss(*batch(2)))


@pytest.mark.parametrize("name", USABLE)
def test_half_types_are_raised_and_float64_is_kept(name: str) -> None:
    emb_BD, labels_B = batch()
    assert load(name)(emb_BD.bfloat16(), labels_B).dtype == torch.float32
    assert load(name).double()(emb_BD.double(), labels_B).dtype == torch.float64


@pytest.mark.parametrize("name", USABLE)
def test_references_are_passed_on_or_refused(name: str) -> None:
    loss, (emb_BD, labels_B), (refs_RD, ref_labels_R) = load(name), batch(), batch(1, 15)
    refs_RD.requires_grad_()
    if not loss.takes_references:
        with pytest.raises(UserError, match=f"pml/{name} takes no references. Use references: batch"):
            loss(emb_BD, labels_B, refs_RD, ref_labels_R)
        return
    theirs = copy.deepcopy(loss.loss)
    value = loss(emb_BD, labels_B, refs_RD, ref_labels_R)
    torch.autograd.backward(value)
    assert refs_RD.grad is not None
    assert refs_RD.grad.abs().sum() > 0
    expected = theirs(emb_BD, labels_B, ref_emb=refs_RD, ref_labels=ref_labels_R)
    torch.testing.assert_close(value, expected)


def test_references_are_taken_by_the_pair_losses() -> None:
    for name in ("CircleLoss", "ContrastiveLoss", "MultiSimilarityLoss", "SupConLoss", "TripletMarginLoss"):
        assert components.find("losses", f"pml/{name}").takes_references  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", USABLE)
def test_every_default_is_allowed_by_its_own_schema(name: str) -> None:
    for key, parameter in tunable(name).items():
        assert key not in ("num_classes", "embedding_size", "distance", "reducer", "kwargs")
        if parameter.default is not parameter.empty:
            assert components.violation(parameter, parameter.default) is None


def test_the_schema_is_the_constructor_s_with_what_it_hands_to_parent_losses() -> None:
    assert {key: p.default for key, p in tunable("CircleLoss").items()} == {
        "m": 0.4,
        "gamma": 80,
        "miner": None,
    }
    assert set(tunable("ProxyNCALoss")) == {"softmax_scale", "miner"}
    assert set(tunable("SignalToNoiseRatioContrastiveLoss")) == {"pos_margin", "neg_margin", "miner"}
    assert set(tunable("SubCenterArcFaceLoss")) == {"margin", "scale", "sub_centers", "miner"}
    assert set(tunable("P2SGradLoss")) == set()
    required = [key for key, p in tunable("RankedListLoss").items() if p.default is p.empty]
    assert required == ["margin", "Tn"]


@pytest.mark.parametrize(
    ("name", "key", "value", "problem"),
    [
        ("CircleLoss", "m", "a lot", "must be a number; got 'a lot'"),
        ("ContrastiveLoss", "pos_margin", 0.25, None),
        ("ContrastiveLoss", "pos_margin", True, "must be a number; got True"),
        ("MarginLoss", "learn_beta", 1, "must be true or false; got 1"),
        ("MarginLoss", "triplets_per_anchor", 10, None),
        ("HistogramLoss", "n_bins", 2.5, "must be a whole number or null; got 2.5"),
        ("RankedListLoss", "alpha", None, None),
    ],
)
def test_values_are_checked_against_the_constructor(
    name: str, key: str, value: Any, problem: str | None
) -> None:
    assert components.violation(tunable(name)[key], value) == problem
    if problem:
        with pytest.raises(UserError, match=f"pml/{name}: {key} must be"):
            load(name, **{key: value})
    else:
        load(name, **{key: value})


def test_parameters_arrive() -> None:
    emb_BD, labels_B = batch()
    direct = room.CircleLoss(m=0.1, gamma=7)(emb_BD, labels_B)
    assert torch.equal(load("CircleLoss", m=0.1, gamma=7)(emb_BD, labels_B), direct)
    direct = room.NCALoss(softmax_scale=3.5)(emb_BD, labels_B)
    assert torch.equal(load("NCALoss", softmax_scale=3.5)(emb_BD, labels_B), direct)
    assert load("ArcFaceLoss").loss.W.shape == (DIM, CLASSES)


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(UserError, match="has no loss 'CircelLoss'; did you mean 'CircleLoss'"):
        load("CircelLoss")
    with pytest.raises(UserError, match="unknown parameter 'gama' in pml/CircleLoss; did you mean 'gamma'"):
        load("CircleLoss", gama=3)
    with pytest.raises(UserError, match="no miner 'MultiSimilarity'; did you mean 'MultiSimilarityMiner'"):
        load("CircleLoss", miner="MultiSimilarity")


def test_missing_and_refused_values_are_said_in_one_line() -> None:
    with pytest.raises(UserError, match="pml/RankedListLoss needs margin and Tn"):
        losses.load("pml/RankedListLoss")
    with pytest.raises(UserError, match="pml/RankedListLoss: Imbalance must be between 0 and 1"):
        load("RankedListLoss", imbalance=3)
    with pytest.raises(UserError, match="pml/PNPLoss: variant=Q but must be one of"):
        load("PNPLoss", variant="Q")
    with pytest.raises(ValueError, match="needs num_classes"):
        losses.load("pml/ArcFaceLoss")


MINERS = sorted(
    name
    for name, member in vars(miners).items()
    if isinstance(member, type) and name not in ("BaseMiner", "EmbeddingsAlreadyPackagedAsTriplets")
)


@pytest.mark.parametrize("miner", MINERS)
def test_a_miner_picks_the_pairs(miner: str) -> None:
    emb_BD, labels_B = batch()
    loss = load("TripletMarginLoss", miner=miner)
    torch.manual_seed(0)
    expected = room.TripletMarginLoss()(emb_BD, labels_B, getattr(miners, miner)()(emb_BD, labels_B))
    assert torch.equal(loss(emb_BD, labels_B), expected)
    loss(emb_BD, labels_B, *batch(1, 15))


def test_a_miner_is_no_parameter_where_the_loss_takes_none() -> None:
    with pytest.raises(UserError, match="unknown parameter 'miner' in pml/RankedListLoss"):
        load("RankedListLoss", miner="MultiSimilarityMiner")


def test_random_picks_come_from_the_state_alone() -> None:
    emb_BD, labels_B = batch()
    loss, other = (load("TripletMarginLoss", triplets_per_anchor=3) for _ in range(2))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = loss(emb_BD, labels_B), loss(emb_BD, labels_B)
    assert torch.equal(torch.get_rng_state(), before)
    assert first != second
    torch.manual_seed(99)
    assert other(emb_BD, labels_B) == first
    resumed = load("TripletMarginLoss", triplets_per_anchor=3)
    resumed.load_state_dict(other.state_dict())
    assert resumed(emb_BD, labels_B) == second


def test_without_the_library_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "pytorch_metric_learning":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning", None)
    importlib.import_module("dmltune.core.losses.from_pml").component.cache_clear()
    with pytest.raises(UserError, match=r"pml/CircleLoss needs .*; pip install 'dmltune\[pml\]'"):
        load("CircleLoss")


def test_an_experiment_checks_it_as_any_other_loss() -> None:
    from dmltune.experiment.problems import Problem
    from dmltune.experiment.schema.components import accept, signature

    assert set(signature("loss", "pml/CircleLoss")) == {"m", "gamma", "miner"}
    assert accept("loss", "pml/CircleLoss", "gamma", 64.5) == 64.5
    with pytest.raises(Problem, match="did you mean 'gamma'"):
        accept("loss", "pml/CircleLoss", "gamm", 1)
