"""The files of a check: its document, its page, its entries of the test ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmltune.check.document import CheckDocument
from dmltune.check.parsing import read_stored
from dmltune.check.plan import CheckPlan, CheckRequest, stored_digest
from dmltune.core.checkpoint import replace_file
from dmltune.errors import parse_json
from dmltune.ledger import FILE, Ledger, LedgerEntry, to_lines
from dmltune.store import Store, without_password
from dmltune.tracking import DataInput, Tracker

DOCUMENT, PAGE, GALLERY = "check.json", "report.html", "gallery.json"
LOCAL_UI = "http://127.0.0.1:5000"  # `dmltune ui --port 5000`


def finished_document(folder: Path, plan: CheckPlan) -> CheckDocument | None:
    """Return the document when it has every model of this plan, otherwise None."""
    path, remedy = folder / DOCUMENT, "Remove it: the same command measures the trained models again."
    document = read_stored(path, remedy, lambda tree: CheckDocument.from_dict(tree, str(path)))
    if document is None or document.failed or CheckPlan.read(folder) != plan:
        return None
    return document if document.plan == stored_digest(folder) else None


def show_again(store: Store, document: CheckDocument, request: CheckRequest) -> CheckDocument:
    """Add an entry to the test ledger and return the document with it. The run's tags stay."""
    entry = LedgerEntry(
        kind="shown again",
        study=request.study,
        why=request.why,
        data=document.data,
        fingerprint=document.fingerprint,
        check=document.name,
        configurations=tuple(result.digest for result in document.configurations),
    )
    ledger = Ledger(store)
    ledger.write(entry)
    document = replace(document, openings=tuple(ledger.entries(request.study)))
    tracker = Tracker(store)
    run = tracker.find(document.name)
    write(document, store.search_folder(document.name), tracker, run.info.run_id if run else None)
    return document


def log_figures(document: CheckDocument, tracker: Tracker, parent_id: str) -> None:
    """Log each model's test metrics in its run, and the means in the run of the check."""
    metric, means = document.metric, {}
    tested = DataInput(f"{document.data}/test", document.fingerprint, "test")
    for result in document.configurations:
        for model in result.models:
            if not tracker.logged_steps(model.run_id, f"test_{metric}"):
                figures = {f"test_{key}": value for key, value in model.test.items() if value is not None}
                tracker.log_inputs(model.run_id, [tested])
                model_id = tracker.model_id(model.run_id)
                tracker.log(model.run_id, model.step, figures, data=tested, model_id=model_id)
        if metric in result.single and (mean := result.single[metric].mean) is not None:
            means[f"test_{metric}.{result.key}"] = mean
    tracker.log(parent_id, len(document.openings), means)


def write(document: CheckDocument, folder: Path, tracker: Tracker, run_id: str | None) -> None:
    """Write check.json, report.html and the study's entries of the ledger."""
    from dmltune.report.check_page import write_page

    write_openings(document, folder, tracker, run_id)
    replace_file(folder / DOCUMENT, json.dumps(document.to_dict(), indent=1).encode())
    runs = runs_address(tracker, run_id) if run_id else ""
    page = write_page(document, folder, read_gallery(folder), runs)
    if run_id:
        tracker.log_file(run_id, folder / DOCUMENT)
        tracker.log_file(run_id, page)


def runs_address(tracker: Tracker, run_id: str) -> str:
    """Return the address of the pages of runs beside this one: the server's, or that of `dmltune ui`."""
    uri = without_password(tracker.client.tracking_uri)
    address = uri.rstrip("/") if uri.startswith("http") else LOCAL_UI
    return f"{address}/#/experiments/{tracker.client.get_run(run_id).info.experiment_id}/runs/"


def write_gallery(gallery: Mapping[str, Any], folder: Path) -> None:
    """Store the pictures beside the check, so that its page can be written again without the test images."""
    replace_file(folder / GALLERY, json.dumps(gallery).encode())


def read_gallery(folder: Path) -> dict[str, Any] | None:
    """Return the stored pictures; None without any, or when they are damaged."""
    try:
        tree = parse_json((folder / GALLERY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tree if isinstance(tree, dict) else None


def write_openings(document: CheckDocument, folder: Path, tracker: Tracker, run_id: str | None) -> None:
    """Write the study's entries of the ledger beside the check, and to its run."""
    replace_file(folder / FILE, to_lines(entry.to_dict() for entry in document.openings).encode())
    if run_id:
        tracker.log_file(run_id, folder / FILE)
