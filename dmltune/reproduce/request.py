"""What a figure's `run` is given: its data, the user's settings, and a way to train."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dmltune.core.embedder import Embedder
from dmltune.core.run import Progress, Run
from dmltune.experiment import Experiment
from dmltune.reproduce.study import DataChoice
from dmltune.reproduce.table_studies import key_of
from dmltune.reproduce.trainings import CellResult, Trainings
from dmltune.resources import Locations

Seeds = Mapping[str, Mapping[int, CellResult]]  # name of a variant → seed → result
TINY = ("max_steps=2", "validate_every=1", "data.size=16", "batch.size=8", "batch.samples_per_class=2")
TINY_RENDERED = ("data.classes=12",)  # of data sets that have many classes and are always at hand


@dataclass(frozen=True)
class FigureRequest:
    """`label` names the data (`choice`, None for a figure without any); `rows` are the selected methods.

    `tiny` asks for the smallest size at which everything runs: few cells, few steps, no meaning.
    """

    figure: str
    label: str
    choice: DataChoice | None
    seeds: int
    rows: tuple[str, ...]
    overrides: tuple[str, ...]
    tiny: bool
    locations: Locations
    log: Callable[[str], None]
    trainings: Trainings

    @property
    def data(self) -> DataChoice:
        assert self.choice is not None, "a figure without data asks for none"
        return self.choice

    @property
    def folder(self) -> Path:
        """Return the folder for pictures. It exists."""
        self.trainings.folder.mkdir(parents=True, exist_ok=True)
        return self.trainings.folder

    def experiment(self, *changes: str, seed: int = 0) -> Experiment:
        """Return a training on the chosen data. The user's overrides come last."""
        return experiment(self.data, self.tiny, (*changes, f"seed={seed}"), self.overrides)

    def train(
        self, cells: Mapping[str, Experiment], *, test: bool = False, keep_weights: bool = False
    ) -> dict[str, CellResult]:
        """Train the cells that are not trained yet; return the results of those that did not fail.

        A key is a plain name, such as `gsp-seed0`. The same command continues what was stopped. `test`
        measures each on the test classes too, with an entry of the test ledger. `keep_weights` keeps the best
        weights in a file that another cell may start from.
        """
        return self.trainings.results(cells, test, keep_weights)

    def train_each(self, plan: Mapping[str, Sequence[str]], *, test: bool = False) -> Seeds:
        """Train each variant (name → changes) with every seed; return name → seed → result."""
        keys = {(name, seed): f"{key_of(name)}-seed{seed}" for seed in range(self.seeds) for name in plan}
        cells = {key: self.experiment(*plan[name], seed=seed) for (name, seed), key in keys.items()}
        done = self.train(cells, test=test)
        results: dict[str, dict[int, CellResult]] = {}
        for (name, seed), key in keys.items():
            if key in done:
                results.setdefault(name, {})[seed] = done[key]
        return {name: results[name] for name in plan if name in results}

    def fit(self, experiment: Experiment) -> Iterator[tuple[Run, Progress]]:
        """Train in this process, for a figure that looks inside; yield the state at every validation.

        It is trained anew each time, so it has to be small.
        """
        return self.trainings.fit(experiment)

    def embedder(self, cell: CellResult) -> Embedder:
        """Return the trained model of a cell."""
        from dmltune.models import find_model
        from dmltune.tracking import Tracker

        return find_model(cell.run_id, Tracker(self.locations.store)).embedder


def experiment(
    choice: DataChoice, tiny: bool, changes: tuple[str, ...] = (), overrides: tuple[str, ...] = ()
) -> Experiment:
    """Return an experiment on these data: their overrides, the tiny size, a figure's changes, the user's."""
    small: tuple[str, ...] = ()
    if tiny:
        name = choice.experiment().data.name
        small = TINY + (TINY_RENDERED if name.startswith("glyph") else ())
    return choice.experiment((*small, *changes, *overrides))
