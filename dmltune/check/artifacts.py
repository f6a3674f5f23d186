"""What a check leaves: its document, its page and its openings, in its folder and with its runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dmltune.check.plan import CheckPlan
from dmltune.core.checkpoint import replace_file
from dmltune.ledger import FILE, Ledger, LedgerEntry, lines
from dmltune.store import Store
from dmltune.tracking import Tracker

DOCUMENT, PAGE = "check.json", "report.html"


def finished(folder: Path, plan: CheckPlan) -> dict[str, Any] | None:
    """The document of this very plan, when it left nothing to do."""
    try:
        document: dict[str, Any] = json.loads((folder / DOCUMENT).read_text())
    except (OSError, ValueError):
        return None
    return document if document["plan"] == plan.digest and not document["failed"] else None


def show_again(store: Store, document: dict[str, Any], study: str, why: str) -> dict[str, Any]:
    """The same document, with one more line in the ledger."""
    name, ledger = str(document["name"]), Ledger(store)
    digests = tuple(row["digest"] for row in document["configurations"])
    ledger.write(
        LedgerEntry("shown again", study, why, document["data"], document["fingerprint"], name, digests)
    )
    document = document | {"openings": [one.to_dict() for one in ledger.entries(study)]}
    tracker = Tracker(store)
    run = tracker.find(name)
    write(document, store.search_folder(name), tracker, run.info.run_id if run else None)
    return document


def log_figures(document: dict[str, Any], tracker: Tracker, parent: str) -> None:
    """Into the runs: of every model its own, of the whole check the means."""
    metric, means = document["metric"], {}
    for row in document["configurations"]:
        for model in row["models"]:
            if not tracker.logged_steps(model["run_id"], f"test_{metric}"):
                figures = {f"test_{key}": value for key, value in model["test"].items()}
                tracker.log(model["run_id"], model["step"], figures)
        if row["single"]:
            means[f"test_{metric}.{row['key']}"] = row["single"][metric]["mean"]
    tracker.log(parent, len(document["openings"]), means)


def write(document: dict[str, Any], folder: Path, tracker: Tracker, run_id: str | None) -> None:
    """check.json, report.html and the study's lines of the ledger."""
    write_openings(document["openings"], folder, tracker, run_id)
    from dmltune.report.check_page import write_page

    replace_file(folder / DOCUMENT, json.dumps(document, indent=1).encode())
    page = write_page(document, folder)
    if run_id:
        tracker.log_file(run_id, folder / DOCUMENT)
        tracker.log_file(run_id, page)


def write_openings(
    openings: Iterable[Mapping[str, Any]], folder: Path, tracker: Tracker, run_id: str | None
) -> None:
    """The study's lines of the ledger, also where they stay when the store's own file is elsewhere."""
    replace_file(folder / FILE, lines(openings).encode())
    if run_id:
        tracker.log_file(run_id, folder / FILE)
