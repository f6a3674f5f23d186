"""Files, texts and pictures of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlflow.exceptions import MlflowException

from dmltune.errors import UserError, parse_json
from dmltune.scratch import scratch_folder
from dmltune.tracking.connection import Connection


class RunFiles(Connection):
    """Artifacts of runs, models apart."""

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        self.client.log_artifact(run_id, str(path), folder)

    def log_folder(self, run_id: str, files: Path, folder: str) -> None:
        self.client.log_artifacts(run_id, str(files), folder)

    def log_json(self, run_id: str, name: str, document: Any) -> None:
        self.log_text(run_id, name, json.dumps(document, indent=1))

    def log_text(self, run_id: str, name: str, text: str) -> None:
        with scratch_folder() as scratch:
            path = scratch / name
            path.write_text(text, encoding="utf-8")
            self.client.log_artifact(run_id, str(path))

    def read_json(self, run_id: str, name: str) -> Any:
        """Return the JSON artifact `name` of a run; None when it has none. A damaged one is a UserError."""
        try:
            if name not in {file.path for file in self.client.list_artifacts(run_id)}:
                return None
            with scratch_folder() as scratch:
                text = Path(self.client.download_artifacts(run_id, name, str(scratch))).read_text(
                    encoding="utf-8"
                )
            return parse_json(text)
        except (MlflowException, OSError, ValueError) as error:
            raise UserError(
                f"{name} of run {run_id} cannot be read ({type(error).__name__}). Restore the store from a "
                "backup, or run the same command under another --name."
            ) from None
