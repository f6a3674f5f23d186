"""Frozen backbones are compared on images of the training half, and the best one is proposed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dmltune.core import backbones
from dmltune.data import catalog
from dmltune.data.feed import evaluation_batches
from dmltune.experiment import load_experiment
from dmltune.propose import Facts, FrozenBackbone, Machine, compare, photo_size, propose
from dmltune.propose.backbones import MOST_OF_A_CLASS, WeightsHere, sample

LAPTOP = Machine("cpu", 2, packaged=True)
BIRDS = Facts("/photos", 40, 800, 20, 20, 20, 0, 160, False)
COMPARED = [
    FrozenBackbone("torchvision/mobilenet_v2", "imagenet_v1", 0.41, 0.03, 480),
    FrozenBackbone("efficientnet_lite0", "packaged", 0.35, 0.02, 480),
]


def weights(folder: Path, name: str, seed: int) -> WeightsHere:
    torch.manual_seed(seed)
    file = folder / f"{name}-{seed}.safetensors"
    save_file({key: value.contiguous() for key, value in backbones.load(name).state_dict().items()}, file)
    return WeightsHere(name, str(file), file)


def map_at_r_by_loops(emb_ND: np.ndarray, labels: list[int]) -> float:
    values = []
    for query, label in enumerate(labels):
        others = [place for place in range(len(labels)) if place != query]
        others.sort(key=lambda place: float(((emb_ND[query] - emb_ND[place]) ** 2).sum()))
        relevant = sum(labels[place] == label for place in others)
        hits, total = 0, 0.0
        for rank, place in enumerate(others[:relevant], start=1):
            if labels[place] == label:
                hits += 1
                total += hits / rank
        values.append(total / relevant)
    return float(np.mean(values))


def test_each_score_is_that_of_averaged_maps_and_the_best_comes_first(tmp_path: Path) -> None:
    images = catalog.load("glyphs", "train").first_classes(12)
    candidates = [weights(tmp_path, "resnet20", 1), weights(tmp_path, "resnetv2_20", 2)]
    compared = compare(images, 32, candidates)
    assert {each.weights for each in compared} == {each.weights for each in candidates}
    assert compared[0].map_at_r >= compared[1].map_at_r
    chosen_N = sample(images.labels_N)
    labels = images.labels_N[chosen_N].tolist()
    assert len(set(labels)) == 12
    assert max(np.bincount(labels)) <= MOST_OF_A_CLASS
    for each in compared:
        network = backbones.load(each.name, each.weights).eval()
        mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in (network.mean, network.std))
        with torch.no_grad():
            maps = [network((x / 255.0 - mean) / std) for x, _ in evaluation_batches(images, chosen_N, 32)]
        emb_ND = torch.cat([part.mean((2, 3)) for part in maps]).double().numpy()
        emb_ND /= np.sqrt((emb_ND**2).sum(1, keepdims=True))
        assert each.map_at_r == pytest.approx(map_at_r_by_loops(emb_ND, labels), abs=1e-3)
        assert (each.images, each.seconds > 0) == (len(chosen_N), True)


def test_the_best_backbone_is_proposed_with_its_weights_and_told(tmp_path: Path) -> None:
    proposal = propose(BIRDS, LAPTOP, compared=COMPARED)
    file = tmp_path / "photos.yaml"
    file.write_text(proposal.text)
    experiment = load_experiment(file)
    assert (experiment.backbone.name, experiment.backbone.weights) == COMPARED[0][:2]
    assert experiment.backbone.frozen_bn
    told = next(choice for choice in proposal.choices if choice.key == "backbone")
    assert told.value == "torchvision/mobilenet_v2, imagenet_v1 weights"
    assert "torchvision/mobilenet_v2 41.0 %, efficientnet_lite0 35.0 %" in told.why
    assert (
        propose(BIRDS, LAPTOP, compared=COMPARED[::-1]).text.count("efficientnet_lite0, packaged weights")
        == 1
    )


def test_images_too_small_for_a_network_for_photos_are_not_compared() -> None:
    assert photo_size(replace(BIRDS, shorter=40), LAPTOP) is None
    assert photo_size(BIRDS, LAPTOP) == 128


def test_proxy_anchor_is_proposed_with_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "photos.yaml"
    file.write_text(propose(replace(BIRDS, classes=80, images=1600), LAPTOP).text)
    experiment = load_experiment(file)
    lr = {"optimizer.lr": 1e-4, "references.name": "batch"}
    anchor = experiment.point({"loss.name": "proxy_anchor", "loss.alpha": 32.0, **lr})
    pair = experiment.point({"loss.name": "triplet", "loss.margin": 0.1, **lr})
    assert (anchor.optimizer.proxy_factor, pair.optimizer.proxy_factor) == (100.0, 1.0)
    assert 0 < anchor.optimizer.warmup_new_layers <= anchor.max_steps // 8
    assert pair.optimizer.warmup_new_layers == 0
    assert (anchor.batch.samples_per_class, pair.batch.samples_per_class) == (1, 4)
