"""A search's winner, its baseline and the untrained network on the same classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from dmltune import tags
from dmltune.errors import UserError, readable
from dmltune.evaluation.api import Progress, measured
from dmltune.evaluation.leads import QueryScores
from dmltune.models import EvaluatedModel, find_model
from dmltune.resources import Locations
from dmltune.store import Store
from dmltune.tracking import Run, Tracker
from dmltune.train.build import untrained_embedder


def compare(
    search: str,
    overrides: Sequence[str] = (),
    *,
    split: Literal["validation", "test"] | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    clustering: bool = False,
    rerank: str | None = None,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Return `evaluate` of the winner, with those of the others under "baseline" and "untrained".

    Under "leads" is the winner's lead in MAP@R over each of them and over raw pixels, with its interval.
    """
    locations = Locations(store or Store.at(), data_root)
    tracker = Tracker(locations.store)
    baseline = find_model(str(baseline_run(search, tracker).info.run_id), tracker, overrides)
    model = find_model(search, tracker, overrides)
    chosen, scores = split or "validation", QueryScores()
    options: dict[str, Any] = {"clustering": clustering, "rerank": rerank, "scores": scores}
    models = {"winner": model, "baseline": baseline, "untrained": untrained(model, locations)}
    documents = {
        name: measured(each, chosen, tracker, locations, progress=progress, **options)
        for name, each in models.items()
    }
    ours = model.trial
    others = {"baseline": baseline.trial, "untrained": models["untrained"].trial, "raw_pixels": "raw_pixels"}
    leads = {name: scores.lead(ours, key) for name, key in others.items() if key in scores.precision_Q}
    named = {name: documents[name] for name in ("baseline", "untrained")}
    return documents["winner"] | named | {"leads": leads}


def baseline_run(search: str, tracker: Tracker) -> Run:
    """Return the run of the search's baseline; a UserError where there is none."""
    parent = tracker.find(search)
    if parent is None:
        raise tracker.unknown("search", search)
    for run in tracker.children(parent):
        if run.data.tags.get(tags.ROLE) == "baseline" and run.data.tags.get(tags.MODEL) == tags.STORED:
            return run
    raise UserError(f"{readable(search)} has no baseline with a model to compare with; leave out --compare.")


def untrained(model: EvaluatedModel, locations: Locations) -> EvaluatedModel:
    """Return the network of the model before its first step."""
    embedder = untrained_embedder(model.experiment, locations.absolute_root)
    return replace(model, embedder=embedder, step=0, trained_on="", trial="untrained", run_id="")
