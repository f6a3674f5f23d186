"""Run one figure under a name: choose its data, claim the name, train, draw, and log what came of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dmltune.core.checkpoint import replace_file
from dmltune.errors import UserError, UserErrors
from dmltune.experiment import Experiment
from dmltune.experiment.problems import near_or_list, show
from dmltune.provenance import version_tags
from dmltune.reproduce import figures
from dmltune.reproduce.request import FigureRequest, experiment
from dmltune.reproduce.study import FigureResult, FigureStudy
from dmltune.reproduce.trainings import Planned, Trainings, Unfinished
from dmltune.resources import Locations, Resources
from dmltune.runs import TrackedRun, closed_on_error
from dmltune.store import validated_name
from dmltune.tracking import Tracker
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.setup import SetupError


@dataclass(frozen=True)
class StudyOptions:
    """What the user chose. `name` is that of the runs, `data` the label of the data; empty: the default."""

    name: str = ""
    data: str = ""
    seeds: int | None = None
    rows: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    tiny: bool = False


@dataclass(frozen=True)
class StudyOutcome:
    """A figure as JSON shows it. `failed`: training → reason; `stopped`: the same command continues."""

    figure: str
    about: str
    source: str
    data: Mapping[str, Any]
    folder: Path
    tables: Sequence[Mapping[str, Any]] = ()
    pictures: Sequence[Path] = ()
    answers: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    stopped: bool = False


def run_study(
    figure: str,
    options: StudyOptions,
    resources: Resources,
    locations: Locations,
    log: Callable[[str], None] = lambda text: None,
) -> StudyOutcome:
    """Train what a figure needs and is not trained yet, draw it, and log tables and pictures."""
    Tracker(locations.store).close_stale()  # also: a store that cannot be used shows before all work
    with _prepared(figure, options, resources, locations, log) as (study, request):
        trainings = request.trainings
        with closed_on_error(trainings.close):
            try:
                result = study.run(request)
            except Unfinished:
                result = FigureResult()
            outcome = _outcome(study, request, result)
            if result.tables:
                _log(outcome, request)
        trainings.close()
    return outcome


def planned_cells(
    figure: str, options: StudyOptions, locations: Locations
) -> tuple[FigureStudy, dict[str, Experiment]]:
    """Return the trainings that a figure begins with, none of them started; {} when it trains nothing."""

    class Planning(Trainings):
        def results(self, cells: Mapping[str, Experiment], *_: bool, **__: bool) -> Any:
            raise Planned(cells)

        def fit(self, experiment: Experiment) -> Any:
            raise Planned({"training": experiment})

    with _prepared(figure, options, Resources(), locations, lambda text: None, Planning) as (study, request):
        try:
            study.run(request)
        except Planned as plan:
            return study, dict(plan.cells)
    return study, {}


@contextlib.contextmanager
def _prepared(
    figure: str,
    options: StudyOptions,
    resources: Resources,
    locations: Locations,
    log: Callable[[str], None],
    kind: type[Trainings] = Trainings,
) -> Iterator[tuple[FigureStudy, FigureRequest]]:
    """Yield the figure and its request, with the name claimed."""
    study = figures.load(figure)
    label = _label(figure, study, options, locations)
    choice = study.data[label] if label else None
    base = experiment(choice, options.tiny, overrides=options.overrides) if choice else None
    fingerprint = _fingerprint(figure, study, base, locations) if base else ""
    name = validated_name(options.name or study.trainings or figure)
    with claim_name(locations.store, name, base, fingerprint) if base else contextlib.nullcontext():
        yield (
            study,
            FigureRequest(
                figure=figure,
                label=label,
                choice=choice,
                seeds=options.seeds or (1 if options.tiny else study.seeds),
                rows=_rows(study, options.rows),
                overrides=options.overrides,
                tiny=options.tiny,
                locations=locations,
                log=log,
                trainings=kind(
                    study.trainings or figure,
                    name,
                    base,
                    fingerprint,
                    resources,
                    locations,
                    log,
                ),
            ),
        )


def _label(figure: str, study: FigureStudy, options: StudyOptions, locations: Locations) -> str:
    """Return the label of the chosen data, or of the first that are at hand."""
    if not study.data:
        for given in (options.data, *options.overrides):
            if given:
                raise UserError(f"{figure} reads no data, so there is nothing to change; leave out {given}.")
        return ""
    if options.data and options.data not in study.data:
        raise UserError(f"no data {show(options.data)} in {figure}{near_or_list(options.data, study.data)}")
    return options.data or study.at_hand(locations.data_root) or next(iter(study.data))


def _fingerprint(figure: str, study: FigureStudy, base: Experiment, locations: Locations) -> str:
    """Validate an experiment, fetching its weights; what is missing is told with the data at hand."""
    try:
        return validate_experiment(base, locations)
    except SetupError as error:
        at_hand = study.at_hand(locations.data_root)
        if at_hand is None:
            raise
        instead = f"on data that are at hand: dmltune reproduce {figure} --data {at_hand}"
        raise UserErrors([*error.lines, instead]) from None


def _rows(study: FigureStudy, chosen: Sequence[str]) -> tuple[str, ...]:
    for row in chosen:
        if row not in study.rows:
            hint = near_or_list(row, study.rows) if study.rows else "; it has none to choose from."
            raise UserError(f"no row {show(row)} in this figure{hint}")
    return tuple(row for row in study.rows if not chosen or row in chosen)


def _outcome(study: FigureStudy, request: FigureRequest, result: FigureResult) -> StudyOutcome:
    choice = request.choice
    data = {"label": request.label, "space": choice.space, "about": choice.about} if choice else {}
    return StudyOutcome(
        figure=request.figure,
        about=study.about,
        source=study.source,
        data=data | ({"stand_in": choice.stand_in} if choice else {}),
        folder=request.folder,
        tables=[
            {
                "title": table.title,
                "columns": list(table.columns),
                "rows": [dict(zip(map(column_key, table.columns), row, strict=True)) for row in table.rows],
            }
            for table in result.tables
        ],
        pictures=list(result.pictures),
        answers=list(result.answers),
        failed=dict(request.trainings.failed),
        stopped=request.trainings.stopped,
    )


def column_key(column: str) -> str:
    """Return the name of a column in the rows of a document, where scores are fractions."""
    return column.removesuffix(" %")


def _log(outcome: StudyOutcome, request: FigureRequest) -> None:
    """Log the document and the pictures in the parent run. What is logged already is not logged again."""
    file = request.folder / f"{request.figure}.json"
    document = json.dumps(asdict(outcome), indent=1, default=str).encode()
    if file.is_file() and file.read_bytes() == document and request.trainings.parent is None:
        return
    replace_file(file, document)
    tracker, run = Tracker(request.locations.store), request.trainings.parent
    if run is None:
        params = {"seeds": request.seeds, "tiny": request.tiny, **outcome.data}
        run = TrackedRun.open(
            tracker,
            tracker.experiment(request.trainings.group),
            request.trainings.name,
            role="reproduction",
            params=params,
            about=version_tags(),
        )
    for path in (file, *outcome.pictures):
        tracker.log_file(run.run_id, path)
    if request.trainings.parent is None:
        run.end("complete")
