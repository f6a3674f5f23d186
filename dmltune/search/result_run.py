"""What a search writes into its own run at its beginning and at its end: question, result, winner, models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dmltune import tags
from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.experiment.tree import flatten
from dmltune.report.run_note import model_note, question, verdict_note
from dmltune.report.search_figure import draw
from dmltune.runs import CONTINUES, TrackedRun, data_inputs, training_params
from dmltune.scratch import scratch_folder
from dmltune.search.records import TrialRecords
from dmltune.search.state import SearchResult, TrialRecord
from dmltune.store import Store
from dmltune.tracking import SpooledTracker
from dmltune.tracking.ownership import only_run, owned
from dmltune.tracking.tracker import SEARCH_PARAMS
from dmltune.tracking.views import search_view
from dmltune.train.name_claim import BUDGET

NUMBERS = ("float", "int")  # kinds of parameters


@contextlib.contextmanager
def search_run(
    store: Store,
    experiment: Experiment,
    name: str,
    space_name: str,
    about: dict[str, object],
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[SearchRun]:
    """Hold the search's run while the block runs. An existing one is not changed.

    On a tracking server it must be the same search, and nobody else's at this time. What an earlier session
    could not write is written first.
    """
    tracker = SpooledTracker(store, store.search_folder(name))
    existing = tracker.find(name)
    if existing is not None:
        run, is_new = TrackedRun(tracker, existing.info.run_id, experiment.objective.metric, name), False
    else:
        run, is_new = _new_run(tracker, store, experiment, name, space_name, about)
    if store.owns_tracking:  # its lock admits one process
        tracker.close_stale()
        yield SearchRun(run, is_new, lambda: None)
        return
    with owned(tracker, run.run_id, name, say) as ownership:
        if not is_new:
            _require_same(run, experiment, about)
        tracker.deliver()
        tracker.close_stale()
        yield SearchRun(run, is_new, ownership.failure)


@dataclass(frozen=True)
class SearchRun:
    """The run of a search, whether it was made just now, and why it is no longer this session's."""

    run: TrackedRun
    is_new: bool
    lost: Callable[[], UserError | None]


def _new_run(
    tracker: SpooledTracker,
    store: Store,
    experiment: Experiment,
    name: str,
    space_name: str,
    about: dict[str, object],
) -> tuple[TrackedRun, bool]:
    names, metric = experiment.space.names, experiment.objective.metric
    run = TrackedRun.open(
        tracker,
        tracker.experiment(space_name, experiment.about),
        name,
        role="search",
        metric=metric,
        params=_search_params(experiment),
        inputs=data_inputs(experiment, str(about[tags.DATA]).partition(":")[2]),
        about={
            **about,
            tags.SEARCHED: ", ".join(names),
            tags.NOTE: question(name, experiment.about, names),
        },
    )
    tracker.log_json(run.run_id, "experiment.json", experiment.to_dict())
    if not store.owns_tracking and (other := only_run(tracker, run.run_id, name)) != run.run_id:
        return TrackedRun(tracker, other, metric, name), False
    share_view(run, experiment, name)
    return run, True


def _require_same(run: TrackedRun, experiment: Experiment, about: dict[str, object]) -> None:
    """Raise a UserError when the name stands for another search on this tracking server."""
    remedy = "Choose another --name."
    tree = run.tracker.read_json(run.run_id, "experiment.json")
    if isinstance(tree, dict):
        differences = Experiment.from_dict(tree).differences(experiment, ignore=BUDGET)
        if differences:
            raise UserError(
                f"'{run.run_name}' is another search on this tracking server: "
                f"{'; '.join(differences)}. {remedy}"
            )
    data = run.tracker.client.get_run(run.run_id).data.tags.get(tags.DATA, "")
    if data and data != about.get(tags.DATA):
        raise UserError(
            f"'{run.run_name}' is a search with other data on this tracking server: {data}. {remedy}"
        )


def is_complete(run: TrackedRun) -> bool:
    return run.tracker.client.get_run(run.run_id).data.tags.get(tags.STATE) == "complete"


def share_view(run: TrackedRun, experiment: Experiment, name: str) -> None:
    """Let MLflow's page of runs open with the columns and the charts of this search."""
    numbers = [each.name for each in experiment.space.parameters if each.kind in NUMBERS]
    view = view_of(experiment, name, numbers)
    run.tracker.share_view(str(run.tracker.client.get_run(run.run_id).info.experiment_id), name, view)


def view_of(experiment: Experiment, name: str, numbers: Sequence[str]) -> dict[str, Any]:
    """Return the view of a search; `numbers` are its searched keys with numbers, the most important first."""
    objective, methods = experiment.objective, list(flatten(experiment.baseline))
    return search_view(
        name,
        objective.metric,
        objective.mode,
        experiment.space.names,
        numbers,
        methods,
        gallery_step=experiment.max_steps,
    )


def log_result(parent: TrackedRun, result: SearchResult, records: TrialRecords, workers: int) -> SearchResult:
    """Log what the search has come to, end its run, and return the result as it is."""
    experiment = records.experiment
    winner, tracker = result.winner, parent.tracker
    note = verdict_note(result, experiment.about, experiment.space.names)
    if winner is None or winner.best is None:
        parent.tag({tags.NOTE: note})
    else:
        _log_winner(parent, result, winner, records, note)
        tracker.log(parent.run_id, len(result.rows), _figures(result, workers))
    tracker.log_json(parent.run_id, "result.json", result.to_dict())
    with scratch_folder() as scratch:
        tracker.log_file(parent.run_id, draw(result, scratch / "search.png"))
    if result.interrupted:
        parent.interrupt(CONTINUES)
    else:
        shown = {tags.RUN_NAME: result.name, tags.COLOUR: tags.COLOURS["parent"]}
        parent.end("complete", labels=shown)
    return result


def _log_winner(
    parent: TrackedRun, result: SearchResult, winner: TrialRecord, records: TrialRecords, note: str
) -> None:
    tracker, models = parent.tracker, records.with_models()
    model_run = records.state.rows[models.get(winner.number, winner.number)].run_id
    if not tracker.has_model(model_run):
        raise UserError(
            f"the winner's model (trial {winner.number}) is not in the store. Run the search again "
            "under another --name with a --store that every node can read."
        )
    before = tracker.client.get_run(parent.run_id).data.tags
    values = {f"{tags.WINNER_VALUES}{key}": value for key, value in winner.values.items()}
    values |= {key: "" for key in before if key.startswith(tags.WINNER_VALUES) and key not in values}
    winner_set = result.verdict.winner_set if result.verdict else (winner.number,)
    parent.tag(
        {
            tags.WINNER: winner.run_id,
            tags.WINNER_TRIAL: winner.number,
            tags.WINNER_MODEL: model_run,
            tags.WINNER_SET: ", ".join(map(str, winner_set)),
            tags.NOTE: note,
            **values,
        }
    )
    _mark_winner(parent, before.get(tags.WINNER, ""), winner.run_id)
    if not result.interrupted:
        tracker.replace_params(parent.run_id, training_params(records.experiment_of(winner)))
        tracker.link_model(parent.run_id, model_run, len(result.rows))
    second = next((n for n in _ranked(result) if n != winner.number and n in models), None)
    challenger = None if second is None else records.state.rows[models[second]].run_id
    tracker.register(result.name, model_run, challenger, model_note(result))


def _mark_winner(parent: TrackedRun, before: str, now: str) -> None:
    """Let the winner's run be seen as such, in its name and colour, and a winner of before as any other."""
    tracker, mark = parent.tracker, "★ "
    if before and before != now and (run := tracker.find(before)) is not None:
        role = run.data.tags.get(tags.ROLE, "search")
        plain = str(run.info.run_name).removeprefix(mark)
        tracker.tag(before, {tags.RUN_NAME: plain, tags.COLOUR: tags.COLOURS[role]})
    if (run := tracker.find(now)) is not None:
        name = mark + str(run.info.run_name).removeprefix(mark)
        tracker.tag(now, {tags.RUN_NAME: name, tags.COLOUR: tags.COLOURS["winner"]})


def _ranked(result: SearchResult) -> list[int]:
    """Return the configurations from best to worst: the winner set, then by their own scores."""
    sign = -1 if result.mode == "max" else 1
    rows = [r for r in result.rows if r.state == "complete" and r.role in ("reference", "search")]
    scored = sorted((sign * row.best, row.number) for row in rows if row.best is not None)
    return [*(result.verdict.winner_set if result.verdict else ()), *(number for _, number in scored)]


def _figures(result: SearchResult, workers: int) -> dict[str, float]:
    """Return the metrics of the search's run: the winner's score, its interval, the noise, the cost."""
    assert result.winner is not None
    assert result.winner.best is not None
    figures = {
        f"best_{result.metric}": result.winner.best,
        "trials": float(len(result.rows)),
        "cost_seconds": workers * sum(row.seconds for row in result.rows),
    }
    if result.untrained_score is not None:
        figures["untrained"] = result.untrained_score
    if (verdict := result.verdict) is None:
        return figures
    if verdict.noise is not None:
        figures["noise"] = verdict.noise
    for name, found in (("corrected", verdict.corrected), ("lead", verdict.lead)):
        if found is not None:
            figures |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
    return figures


def _search_params(experiment: Experiment) -> dict[str, Any]:
    """Return how the search was asked for; its winner's configuration follows at its end."""
    settings, trained = experiment.settings(), training_params(experiment)
    names = {key: key if key.startswith(SEARCH_PARAMS) else f"{SEARCH_PARAMS}{key}" for key in settings}
    return {names[key]: value for key, value in settings.items() if key not in trained and key != "about"}
