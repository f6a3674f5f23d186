"""The numerical surface that others test against: names and signatures of design.md."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch

import dmltune
from dmltune.core import (
    analysis,
    clustering,
    components,
    geometry,
    losses,
    references,
    retrieval,
    verification,
    zero_shot,
)
from dmltune.core.losses import metric_cross_entropy
from dmltune.core.poolings import gsp
from dmltune.core.references import ccp, xbm
from dmltune.core.transforms import sft

SIGNATURES: list[tuple[Any, str]] = [
    (geometry.pairwise_distance, "x_BD, y_RD, squared=False"),
    (geometry.greedy_k_center, "pool_ND, cover_PD, k"),
    (geometry.covering_radius, "emb_ND, labels_N"),
    (gsp.transport, "cost_BMN, mu, epsilon, iterations=None"),
    (gsp.generalized_sum_pool, "features_BND, prototypes_MD, mu, epsilon, iterations=None"),
    (
        zero_shot.zero_shot_loss,
        "attributes_BM, labels_B, class_embeddings_CD, ridge=0.05, scale=9.5, split=None",
    ),
    (losses.load, "name, num_classes=None, dim=None"),
    (references.load, "name"),
    (sft.rotate, "x_BD, source_BD, target_BD"),
    (sft.translate, "x_BD, source_BD, target_BD, renormalise=True"),
    (sft.Centres, "num_classes, dim"),
    (
        retrieval.retrieval_metrics,
        "query, query_labels, gallery=None, gallery_labels=None, ks=(1, 2, 4, 8)",
    ),
    (clustering.clustering_metrics, "labels, assignments"),
    (verification.tar_at_far, "scores, same, fars"),
    (analysis.subspace_overlap, "emb, labels, k"),
    (analysis.class_divergence, "emb, labels"),
    (analysis.histogram, "features_ND, prototypes_MD"),
    (analysis.convex_combination, "features_ND"),
    (metric_cross_entropy.distance, "x_BC, y_BC, a, b, p"),
    (metric_cross_entropy.is_metric, "a, b, p"),
    (dmltune.load_experiment, "name_or_path, overrides=()"),
    (dmltune.train, "experiment"),
    (dmltune.search, "experiment"),
    (dmltune.evaluate, "run"),
]
LOSSES = {
    "contrastive_cosine": "margin=0.5",
    "contrastive": "pos_margin neg_margin",
    "triplet": "margin",
    "margin": "alpha beta learn_beta=True",
    "lifted": "margin",
    "n_pair": "l2=0",
    "multi_similarity": "alpha beta base mining_margin=None",
    "ranked_list": "margin boundary temperature",
    "fastap": "bins=10",
    "proxy_anchor": "delta=0.1 alpha=32",
    "proxy_nca": "temperature=0.1",
    "soft_triple": "scale=20 gamma=0.1 tau=0.2 delta=0.01 centers=10",
    "metric_cross_entropy": "a b p temperature metric='strict'",
    "l2_softmax": "scale",
    "cosface": "scale margin",
    "arcface": "scale margin",
}
LEARNED = (
    "proxy_anchor",
    "proxy_nca",
    "soft_triple",
    "metric_cross_entropy",
    "l2_softmax",
    "cosface",
    "arcface",
)


@pytest.mark.parametrize(("function", "expected"), SIGNATURES, ids=lambda part: getattr(part, "__name__", ""))
def test_a_function_takes_these_arguments_in_this_order(function: Any, expected: str) -> None:
    found = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(function).parameters.values()
    ]
    wanted = re.split(r", (?![^(]*\))", expected)
    assert found[: len(wanted)] == wanted
    assert inspect.getdoc(function)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_has_these_parameters_and_is_loaded_by_its_name(name: str) -> None:
    known = components.parameters(components.find("losses", name))
    for word in LOSSES[name].split():
        key, equals, default = word.partition("=")
        assert key in known
        if equals:
            assert repr(known[key].default) in (default, f"{default}.0")
    loss = losses.load(name, num_classes=3, dim=2)
    value = loss(torch.eye(2), torch.tensor([0, 1]))
    assert value.shape == ()
    if name in LEARNED:
        shape = dict(loss.named_parameters())["proxies"].shape
        assert (shape[0], shape[-1], len(shape)) == (3, 2, 3 if name == "soft_triple" else 2)


def test_named_tuples_have_the_promised_fields() -> None:
    assert gsp.Transport._fields == ("plan_BMN", "residual_BN")
    assert gsp.Pooled._fields == ("pooled_BD", "attributes_BM", "weights_BN")
    assert set(clustering.clustering_metrics(torch.tensor([0, 1]), torch.tensor([1, 0]))) == {"nmi", "f1"}
    assert dict(sft.Centres(3, 2).named_buffers())["values"].shape == (3, 2)
    assert sft.Centres(3, 2).update_(torch.eye(2), torch.tensor([0, 2])) is None
    keys = retrieval.retrieval_metrics(torch.eye(3), torch.tensor([0, 0, 1]), ks=(1, 3))
    expected = "precision_at_1 r_precision map_at_r recall_at_1 recall_at_3 queries_without_match"
    assert set(keys) == set(expected.split())
    assert (xbm.Xbm.__name__, ccp.Ccp.__name__) == ("Xbm", "Ccp")


WITH_EQUATION = [
    *(gsp.transport, gsp.generalized_sum_pool, zero_shot.zero_shot_loss, sft.rotate, sft.translate),
    *(sft.Centres, geometry.greedy_k_center, geometry.covering_radius, ccp.Ccp.penalty),
    *(analysis.subspace_overlap, analysis.class_divergence, analysis.histogram, analysis.convex_combination),
    *(metric_cross_entropy.distance, metric_cross_entropy.is_metric),
]


@pytest.mark.parametrize("item", WITH_EQUATION, ids=lambda item: item.__qualname__)
def test_what_comes_from_a_paper_says_where_it_stands_there(item: Any) -> None:
    text = f"{inspect.getdoc(item)} {inspect.getmodule(item).__doc__}"  # type: ignore[union-attr]
    assert re.search(r"eq\. ?\d|§ ?\d|[Aa]lgorithm \d|[Pp]rop(\.|osition) ?\d|[Ll]emma \d|seed 00\d", text)
