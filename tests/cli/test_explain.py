"""`dmltune explain`: every key has a meaning, and what the searches of the store say stands beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import BaseModel
from support.stored_searches import WrittenTrial, point, reference, write_search
from support.stores import new_store

from dmltune.cli import main
from dmltune.core import components as signatures
from dmltune.experiment import Experiment
from dmltune.experiment import tree as trees
from dmltune.experiment.explaining import explanations, usages
from dmltune.experiment.schema.components import PACKAGES, signature
from dmltune.meanings import meanings
from dmltune.store import Store

NUMBERS = np.random.default_rng(4)


def schema() -> set[tuple[str, str]]:
    """Return key and component of every setting and of every component's parameters."""
    found = {("extends", "")}
    for section, field in Experiment.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= {(f"{section}.{key}", "") for key in inner.model_fields}
        else:
            found.add((section, ""))
    for section, package in PACKAGES.items():
        for name in signatures.names(package):
            found |= {(f"{section}.{key}", name) for key in signature(section, name)}
    return found


def test_every_key_and_every_parameter_of_a_component_has_a_meaning_and_no_meaning_is_left_over() -> None:
    own = {(f"fidelity.{key}", "") for key in ("trials", "threshold", "keep", "cost")}
    assert {(each.key, each.component) for found in meanings().values() for each in found} == schema() | own


def test_a_meaning_is_a_sentence_or_more() -> None:
    for found in meanings().values():
        for each in found:
            assert each.meaning.endswith(".")
            assert 15 < len(each.meaning) < 300


@pytest.mark.parametrize("key", sorted(meanings()))
def test_every_key_can_be_explained(key: str) -> None:
    for found in explanations(key):
        assert found.meaning
        assert found.range or found.key.split(".")[0] in ("fidelity", "extends", "search", "presets")


def test_range_and_default_are_those_of_the_signature_and_of_the_schema() -> None:
    (found,) = explanations("pooling.mu")
    assert (found.default, found.range) == ("0.3", "a number, above 0 and at most 1")
    (found,) = explanations("batch.size")
    assert (found.default, found.range) == ("64", "a whole number, at least 2 and at most 65536")
    (found,) = explanations("references.longest")
    assert found.range == "a whole number or null, at least 1"
    (found,) = explanations("optimizer.betas")
    assert found.range == "a list or null"
    (found,) = explanations("objective.mode")
    assert found.range == "one of max, min"
    (found,) = explanations("data.name")
    assert found.default == "none: it has to be given"


def test_a_key_of_several_losses_is_explained_for_each_and_a_loss_can_be_named() -> None:
    assert {each.component for each in explanations("loss.alpha")} == {
        "margin",
        "multi_similarity",
        "proxy_anchor",
    }
    (found,) = explanations("loss.proxy_anchor.alpha")
    assert found.papers == "32"


def test_a_loss_of_another_library_is_explained_by_its_signature() -> None:
    pytest.importorskip("pytorch_metric_learning")
    (found,) = explanations("loss.pml/CircleLoss.gamma")
    assert found.default == "80"
    assert "pytorch-metric-learning" in found.meaning


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("references.lamda", "did you mean 'references.lambda'?"),
        ("loss.triplet.margine", "did you mean 'loss.triplet.margin'?"),
        ("max_step", "did you mean 'max_steps'?"),
        ("pooling.0123456789012345", "there are pooling.clusters"),
        ("loss.pml/CircleLoss.gama", "did you mean 'gamma'?"),
    ],
)
def test_a_wrong_name_is_one_line_with_the_nearest(
    key: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", key]) == 2
    err = capsys.readouterr().err
    assert hint in err
    assert err.count("\n") == 1


def test_spaces_show_their_ranges_reference_points_and_presets() -> None:
    found = {(each.space, each.component): each for each in usages("loss.neg_margin")}
    assert found["cars", ""].value == found["cars", "contrastive"].value == 0.5409
    ccp = {each.space: each for each in usages("references.lambda")}
    assert ccp["cub-ccp"].value == 2e-4
    assert (ccp["cub-ccp"].ranges[0].low, ccp["cub-ccp"].ranges[0].high) == (1e-5, 1e-1)


def test_every_papers_value_of_the_data_sets_is_that_of_their_spaces() -> None:
    """The figures of §3.3.2.1 stand in the texts and in the spaces."""
    for key in ("loss.neg_margin", "loss.triplet.margin"):
        (found,) = explanations(key)
        values = {each.value for each in usages(key) if each.space in ("cub", "cars", "inshop", "sop")}
        assert len(values) >= 3
        assert all(f"{value:g}".lstrip("0") in found.papers for value in values)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("explained"))
    write_search(store, "demo", written(), outcome={"winner": 3, "winner_set": [3, 5], "noise": 0.01})
    return store


def written() -> list[WrittenTrial]:
    """The score falls with λ; proxies have no effect, and say so in most trials."""
    trials = [reference(0.3)]
    for number in range(1, 30):
        place = float(NUMBERS.random()) if number != 3 else 0.0
        made = point(0.5 - 0.3 * place, **{"lambda": 1e-5 * 1e4**place, "proxies": 1 + number % 6})
        trials.append(replace(made, about={"idle": {"references.proxies": "no projection ended"}}))
    return trials


def test_searches_of_the_store_show_importance_good_values_and_what_had_no_effect(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "references.lambda", "--store", str(store.root), "-f", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["searches"]
    assert found["search"] == "demo"
    assert found["importance"]["share"] > 0.8
    assert (found["trials"], len(found["good"]), found["idle"]) == (30, 2, None)
    assert main(["explain", "references.proxies", "--store", str(store.root)]) == 0
    out = capsys.readouterr().out
    assert "demo: no effect in 29 of 30 trials: no projection ended" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_a_question_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pooling.mu", "--store", str(tmp_path / "none")]) == 0
    assert "No search of this store" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("words", [["explain"], ["explain", "loss"], ["explain", "max_steps"]])
def test_all_keys_of_a_section_or_of_everything_fit_80_columns(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert all(name in out for name in trees.COMPONENTS) or len(words) == 2
