"""check.json: keys of earlier versions, schema numbers, damage."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from support.checked_documents import checked, configuration, grid

from dmltune.check.document import CheckDocument, ClassScores
from dmltune.errors import UserError

FIRST_SCHEMA: dict[str, Any] = {
    "name": "birds-check",
    "space_name": "cub-ccp",
    "data": "cub",
    "fingerprint": "9f1c",
    "protocol": "fair",
    "folds": 2,
    "repeats": 1,
    "models": 4,
    "again": True,
    "configurations": [configuration("winner", grid(0.3, folds=2, repeats=1))],
    "search_score": {
        "metric": "map_at_r", "observed": 0.5, "corrected": 0.4, "bias": 0.1, "noise_sd": 0.02, "n": 12,
    },
    "per_class": {"classes": ["a", "b"], "images": [3, 1], "winner": [0.5, None]},
    "confusions": {"winner": [{"of": "a", "as": "b", "count": 2, "share": 0.5}]},
    "distances": {"winner": {"edges": [0.0, 1.0], "positive": [3], "negative": [4]}},
}  # fmt: skip


def test_a_document_without_a_number_is_read_and_written_with_the_same_keys() -> None:
    document = CheckDocument.from_dict(FIRST_SCHEMA)
    assert (document.seen_before, document.planned_models) == (True, 4)
    assert document.search_score is not None
    assert document.search_score.trials == 12
    assert document.per_class == ClassScores(("a", "b"), (3, 1), {"winner": (0.5, None)})
    assert document.confusions["winner"][0].taken_for == "b"
    tree = document.to_dict()
    for row in tree["configurations"]:
        assert {joined.pop("sd") for joined in row["ensemble"].values()} == {None}  # was not measured then
    assert {key: tree[key] for key in FIRST_SCHEMA} == FIRST_SCHEMA
    assert tree["schema"] == 2
    assert "warning" not in tree
    assert CheckDocument.from_dict(json.loads(json.dumps(tree))) == document


def test_nan_is_null_and_a_stopped_check_has_no_figures() -> None:
    document = CheckDocument.from_dict(FIRST_SCHEMA)
    (result,) = document.configurations
    unknown = replace(document, configurations=(replace(result, geometry={"radius": math.nan}),))
    assert unknown.to_dict()["configurations"][0]["geometry"] == {"radius": None}
    stopped = replace(checked("birds-check").document, stopped=True).to_dict()
    assert stopped["configurations"] == []
    assert not {"test_images", "per_class", "distances", "search_score"} & set(stopped)


def test_an_unknown_number_and_every_damage_is_one_line() -> None:
    damaged = {
        "has schema '3', and this version reads 1 and 2": FIRST_SCHEMA | {"schema": 3},
        "must be a JSON object": [],
        "folds: input should be a valid integer": FIRST_SCHEMA | {"folds": "two"},
        "name: field required": {"schema": 2},
        "per_class": FIRST_SCHEMA | {"per_class": [1]},
        "configurations.0.models.0.seed: field required": FIRST_SCHEMA
        | {"configurations": [{"key": "winner", "models": [{"member": "a", "fold": 0}]}]},
        "openings.0.study": FIRST_SCHEMA | {"openings": [{"kind": "check"}]},
    }
    for message, tree in damaged.items():
        with pytest.raises(UserError) as caught:
            CheckDocument.from_dict(tree, "check.json of run 7")
        text = str(caught.value)
        assert message in text
        assert text.startswith("check.json of run 7")
        assert "\n" not in text
