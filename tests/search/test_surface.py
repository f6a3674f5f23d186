from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.large_search import score, write_large_search
from support.stores import new_store

from dmltune.search import surface as module
from dmltune.search.gaussian_process import GaussianProcess
from dmltune.search.importance import importances, responses
from dmltune.search.stored import StoredSearches
from dmltune.search.surface import surface


def test_the_surface_is_the_mean_of_predictions_and_has_its_top_where_the_score_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path)
    write_large_search(store, "s", 150)
    search = StoredSearches(store).get("s")
    fitted: list[GaussianProcess] = []

    def fit(*arguments: object, **options: object) -> GaussianProcess:
        fitted.append(GaussianProcess.fit(*arguments, **options))  # type: ignore[arg-type]
        return fitted[-1]

    monkeypatch.setattr(module, "GaussianProcess", type("Fit", (), {"fit": staticmethod(fit)}))
    monkeypatch.setattr(module, "AVERAGED", 1000)  # all trials
    known = responses(search)
    found = surface(known, importances(search))
    assert found is not None
    assert [found.x.name, found.y.name] == ["references.lambda", "references.proxies"]
    assert found.y.values == (1, 2, 3, 4, 5, 6)
    assert found.x.log
    assert len(found.x.edges) == len(found.x.values) + 1
    cells = np.array(found.score)
    best = np.unravel_index(cells.argmax(), cells.shape)
    assert abs(math.log10(found.x.values[best[0]]) + 3) < 0.7
    assert abs(found.y.values[best[1]] - 4) <= 1
    exact = np.array([[score(x, y) for y in found.y.values] for x in found.x.values])
    assert np.corrcoef(cells.ravel(), exact.ravel())[0, 1] > 0.9

    from dmltune.search.gp_sampler import seen_space
    from dmltune.search.unit_cube import UnitCube

    cube = UnitCube(seen_space(known.trials))
    i, j, total = 3, 2, 0.0
    for trial in known.trials:
        values = trial.params | {found.x.name: found.x.values[i], found.y.name: found.y.values[j]}
        total += float(fitted[0].predict(cube.encode(values)[None])[0][0])
    scale, middle = float(np.std(known.scores)), float(np.mean(known.scores))
    assert cells[i, j] == pytest.approx(total / len(known.trials) * scale + middle, rel=0.01)
