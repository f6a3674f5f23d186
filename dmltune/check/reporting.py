"""`dmltune report` for a check: its page again, from its stored document. No test class is read."""

from __future__ import annotations

from pathlib import Path

from dmltune.check.artifacts import DOCUMENT, read_gallery, runs_address
from dmltune.check.document import CheckDocument
from dmltune.check.parsing import read_stored
from dmltune.errors import UserError
from dmltune.report.charts import write_charts
from dmltune.report.check_page import figures_of, write_page
from dmltune.store import Store
from dmltune.tracking import Tracker


def report_check(store: Store, name: str, file: Path, figures: Path | None = None) -> list[Path]:
    """Write the page, and its figures when a folder is named; return their files."""
    folder = store.search_folder(name)
    path = folder / DOCUMENT
    remedy = "Remove it: the same command measures the trained models again."
    document = read_stored(path, remedy, lambda tree: CheckDocument.from_dict(tree, str(path)))
    if document is None:
        raise UserError(f"{path} is gone. Check again: the same command measures the trained models again.")
    gallery = read_gallery(folder)
    tracker = Tracker(store)
    run = tracker.find(name)
    write_page(document, file, gallery, runs_address(tracker, run.info.run_id) if run else "")
    return write_charts(figures_of(document, gallery), figures) if figures is not None else []
