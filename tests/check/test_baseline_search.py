"""The space of the baseline's own search: what applies to it too, or its learning rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.check.baseline_search import baseline_space
from dmltune.errors import UserError
from dmltune.experiment import load_experiment

SPACE = """
extends: glyphs
references: {name: ccp}
search:
  references.proxies: {int: [1, 6]}
  references.pool_size: {int: [1, 9]}
  loss.neg_margin: {float: [0.2, 0.9]}
  optimizer.lr: {float: [1.0e-4, 1.0e-2], log: true}
require:
  - references.pool_size >= references.proxies
  - loss.neg_margin >= 0.3
reference_point: {references.proxies: 4, references.pool_size: 7, loss.neg_margin: 0.6}
baseline: {references: {name: batch}, optimizer: {lr: 2.0e-3}}
"""


def test_keys_that_the_baseline_has_too_and_does_not_fix_are_searched_from_its_own_values(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.yaml").write_text(SPACE)
    space = baseline_space(load_experiment(str(tmp_path / "mine.yaml")))
    assert list(space.search) == ["loss.neg_margin"]
    assert space.require == ["loss.neg_margin >= 0.3"]
    assert dict(space.space.reference_point) == {"loss.neg_margin": 0.6}
    assert space.references.name == "batch"
    assert space.optimizer.lr == 2.0e-3
    assert space.baseline == {}


def test_where_nothing_applies_to_the_baseline_its_learning_rate_is_searched_a_decade_up_and_down() -> None:
    experiment = load_experiment("glyphs-ccp")
    space = baseline_space(experiment)
    assert list(space.search) == ["optimizer.lr"]
    assert space.search["optimizer.lr"]["float"] == pytest.approx([1e-4, 1e-2])
    assert space.search["optimizer.lr"]["log"] is True
    assert space.fixed().differences(experiment.baseline_experiment() or experiment, ignore=["search"]) == []


def test_without_a_baseline_there_is_nothing_to_search() -> None:
    with pytest.raises(UserError, match="has no baseline; give its space a `baseline:`"):
        baseline_space(load_experiment("glyphs-ccp", ["baseline="]))
