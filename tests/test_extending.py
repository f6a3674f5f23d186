"""A loss, a sampler and a scheduler are one file each: added to a copy of the package, found and used.

The scheduler pauses every trial that is not protected, so the same session shows that a paused trial holds no
worker group: 4 trials on 2 groups end, in bounded time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.stores import new_store

import dmltune

ROOT = Path(dmltune.__file__).parents[1]
FILES = {
    "core/losses/squared_gap.py": """
        from typing import Annotated

        from annotated_types import Gt
        from torch import Tensor

        from dmltune.core.losses._pairs import PairLoss


        class SquaredGap(PairLoss):
            'Mean of d² over positive pairs + mean of (m − d)₊² over negative pairs.'

            def __init__(self, margin: Annotated[float, Gt(0)] = 0.5) -> None:
                super().__init__()
                self.margin = margin

            def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
                near_BR = (self.margin - dist_BR).clamp(min=0)
                far = (dist_BR**2 * positive_BR).sum() / positive_BR.sum().clamp(min=1)
                return far + (near_BR**2 * negative_BR).sum() / negative_BR.sum().clamp(min=1)
        """,
    "search/samplers/genetic.py": """
        from typing import Annotated

        from annotated_types import Ge


        class Genetic:
            "Optuna's NSGA-II, which stores generations in trials; this one stores a count in the study."

            def __init__(self, population: Annotated[int, Ge(2)] = 2) -> None:
                self.population = population

            def build(self, trials: int, seed: int):
                from optuna.samplers import NSGAIISampler

                class Counting(NSGAIISampler):
                    def before_trial(self, study, trial):
                        super().before_trial(study, trial)
                        count = len(study.get_trials(deepcopy=False))
                        study._storage.set_study_system_attr(study._study_id, 'genetic:trials', count)

                return Counting(population_size=self.population, seed=seed)
        """,
    "search/schedulers/pausing.py": """
        class Pausing:
            'Pause every trial after its first validation; waiting trials run first.'

            def build(self, budget):
                return Rule()


        class Rule:
            def __init__(self):
                self.waiting, self.continued = [], set()

            def report(self, trial):
                if trial.number in self.continued or trial.protected:
                    return 'continue'
                print('paused', trial.number, trial.steps[-1], flush=True)
                self.waiting.append(trial.number)
                return 'pause'

            def restore(self, trial):
                pass

            def promote(self, closing=False):
                number = self.waiting.pop(0) if self.waiting else None
                self.continued.add(number)
                return number

            def end(self, number):
                pass
        """,
}
SPACE = """
extends: glyphs
data: {classes: 40, size: 16}
batch: {size: 16}
max_steps: 4
validate_every: 2
loss: {name: squared_gap, margin: 0.4}
search:
  loss.margin: {float: [0.1, 1.0]}
sampler: {name: genetic, population: 2}
scheduler: pausing
trials: 4
reference_point: {loss.margin: 0.4}
"""
SEARCH = """
import json, sys
import dmltune
from dmltune.search import tuning
from dmltune.store import Store

orders, make = [], tuning.Order.of

def noting(*args, **options):
    orders.append(options["untrained"] is None)
    return make(*args, **options)

tuning.Order.of = noting
experiment = dmltune.load_experiment("./extended.yaml")
result = dmltune.search(
    experiment, space_name="extended", name="extended", concurrent=2, store=Store.at("store")
)
print(json.dumps({
    "package": dmltune.__file__, "rows": [vars(row) for row in result.rows], "measured_anew": sum(orders),
    "interrupted": result.interrupted,
}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with three more files, and a space that names them."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("dmltune", "search_spaces"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for path, text in FILES.items():
        lines = text.strip("\n").splitlines()
        (folder / "dmltune" / path).write_text("\n".join(line[8:] for line in lines) + "\n")
    (folder / "extended.yaml").write_text(SPACE)
    new_store(folder / "store")
    return folder


def python(copy: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_find_the_new_files(copy: Path) -> None:
    methods = json.loads(python(copy, "-m", "dmltune", "methods", "-f", "json"))
    assert methods["loss"]["squared_gap"]["parameters"]["margin"]["range"] == "above 0"
    assert methods["sampler"]["genetic"]["parameters"]["population"]["default"] == 2
    assert methods["scheduler"]["pausing"]["about"].startswith("Pause every trial")
    planned = python(copy, "-m", "dmltune", "search", "./extended.yaml", "--dry-run", "--store", "store")
    assert "loss.margin" in planned


@pytest.fixture(scope="module")
def searched(copy: Path) -> tuple[dict[str, Any], list[str]]:
    *lines, document = python(copy, "-c", SEARCH).splitlines()
    return json.loads(document), lines


def test_a_search_with_them_ends_although_every_trial_is_paused(
    copy: Path, searched: tuple[dict[str, Any], list[str]]
) -> None:
    document, lines = searched
    assert document["package"] == str(copy / "dmltune" / "__init__.py")
    assert [(row["state"], row["step"]) for row in document["rows"]] == [("complete", 4)] * 4
    assert not document["interrupted"]
    paused = Counter(line.split()[1] for line in lines if line.startswith("paused"))
    assert paused == dict.fromkeys(("1", "2", "3"), 1)  # the reference point is protected
    margins = {row["values"]["loss.margin"] for row in document["rows"]}
    assert len(margins) == 4


def test_what_the_sampler_stored_is_in_the_study_and_step_0_was_measured_by_the_first_trials_alone(
    copy: Path, searched: tuple[dict[str, Any], list[str]]
) -> None:
    import optuna

    study = optuna.load_study(study_name="extended", storage=f"sqlite:///{copy / 'store' / 'optuna.db'}")
    generations = [value for trial in study.trials for value in trial.system_attrs.values()]
    assert generations == [0] * 3  # all were proposed before one of them ended; the reference has none
    system = study._storage.get_study_system_attrs(study._study_id)
    assert system["genetic:trials"] == 4
    assert 1 <= searched[0]["measured_anew"] <= 2  # as many as run at a time
    at_0 = {trial.intermediate_values[0] for trial in study.trials}
    assert len(at_0) == 1
