"""What a figure of the papers is: its data, its question, its answer.

A file of `reproduce/figures` ends with

    STUDY = FigureStudy(about="…", source="thesis, Fig. 3.5", data={…}, run=run)

`run(request)` loads experiments with `request.experiment`, trains them with `request.train`, draws pictures
into `request.folder` and returns a `FigureResult`. What is trained already is not trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dmltune.core import backbones
from dmltune.data import catalog
from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment
from dmltune.weights.folder import find

if TYPE_CHECKING:
    from dmltune.reproduce.request import FigureRequest

Value = float | int | str | None


@dataclass(frozen=True)
class DataChoice:
    """Data that a figure can be made of: a search space with overrides, and what they are in one line.

    `stand_in` says that they are not the data of the print.
    """

    space: str
    about: str
    overrides: tuple[str, ...] = ()
    stand_in: bool = True

    def experiment(self, changes: Sequence[str] = ()) -> Experiment:
        return load_experiment(self.space, [*self.overrides, *changes]).fixed()

    def missing(self, data_root: Path | None) -> str:
        """Return why this cannot be trained here: data or weights that are not at hand. Else nothing."""
        experiment = self.experiment()
        return missing_data(experiment.data.name, data_root) or missing_weights(experiment, data_root)


@dataclass(frozen=True)
class FigureTable:
    """Rows in the order of `columns`. Values of a column whose name ends with % are fractions."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True)
class FigureResult:
    """Tables, PNG files, and sentences that answer the figure's question with numbers."""

    tables: Sequence[FigureTable] = ()
    pictures: Sequence[Path] = ()
    answers: Sequence[str] = ()


@dataclass(frozen=True)
class FigureStudy:
    """A figure of a paper.

    data: label → data, those of the print first; none for a figure that reads no images
    seeds: how many are trained when the user does not say
    rows: the methods that `--rows` can select
    trainings: the name of its runs, where several figures share them (default: the figure's name)
    """

    about: str
    source: str
    run: Callable[[FigureRequest], FigureResult]
    data: Mapping[str, DataChoice] = field(default_factory=dict)
    seeds: int = 1
    rows: tuple[str, ...] = ()
    trainings: str = ""

    def at_hand(self, data_root: Path | None) -> str | None:
        """Return the label of the first data that are at hand, or None."""
        return next((label for label, choice in self.data.items() if not choice.missing(data_root)), None)


def missing_data(name: str, data_root: Path | None) -> str:
    """Return why the training half of a data set cannot be read. Rendered ones always can."""
    try:
        if catalog.needs_files(name):
            catalog.files(name, "train", data_root)
    except UserError as error:
        return str(error)
    return ""


def missing_weights(experiment: Experiment, data_root: Path | None) -> str:
    """Return why the backbone has no weights on this machine. They could still be fetched."""
    chosen = experiment.backbone
    try:
        source = backbones.weights_source(chosen.name, chosen.weights)
        here = source is None or find(source, str(data_root) if data_root else None)
    except UserError as error:
        return str(error)
    return "" if here else f"weights {chosen.weights} of {chosen.name} are not on this machine"
