"""Stored embedders: one LoggedModel each, and the best of a search in the model registry.

The run of a stored model has the tags `tags.MODEL` and `tags.MODEL_ID`. Models of earlier versions are the
artifact `model` of their run and are still read.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModelOutput, Metric, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.dbmodels.models import SqlInput

from dmltune import tags
from dmltune.errors import UserError, parse_json
from dmltune.scratch import scratch_folder
from dmltune.tracking.connection import Connection
from dmltune.tracking.data_inputs import DataInput
from dmltune.tracking.flavor import write_flavor

log = logging.getLogger(__name__)
MODEL = "model"  # of earlier versions: the folder of artifacts
MODEL_TYPE = "embedder"
DESCRIPTION = "model.json"
SHOWN_FACTS: tuple[str, ...] = ("image_size", "crop_margin", "normalise", "embedding_size")
CHAMPION, CHALLENGER = "champion", "challenger"


class RunModels(Connection):
    """The models of runs."""

    def log_model(
        self,
        run_id: str,
        folder: Path,
        *,
        name: str = MODEL,
        params: Mapping[str, Any] | None = None,
        validated_on: DataInput | None = None,
        stamps: Mapping[int, int] | None = None,
    ) -> str:
        """Store the files of a trained embedder (safetensors and JSON, no pickle); return the model's id.

        The metrics in its model.json become metrics of the model on `validated_on`. The run has them already:
        with the values and time stamps that they have there, no point of its curves is doubled. `stamps` has
        those of each step; a step without one, of an earlier session, is left out.
        """
        about = _described(folder / DESCRIPTION)
        experiment_id = self.client.get_run(run_id).info.experiment_id
        model_id = (
            self._model_of(run_id, experiment_id)
            or str(
                self.client.create_logged_model(
                    experiment_id,
                    name=re.sub(r"[/:.%\"']", "-", name),  # which MLflow admits in no model's name
                    source_run_id=run_id,
                    params={key: str(value)[:5000] for key, value in (params or {}).items()},
                    model_type=MODEL_TYPE,
                ).model_id
            )
        )
        with scratch_folder() as scratch:
            files = scratch / MODEL
            shutil.copytree(folder, files, copy_function=_linked)
            facts = {key: about[key] for key in SHOWN_FACTS if key in about}
            write_flavor(files, model_id, run_id, about.get("embedding_size", -1), facts)
            self.client.log_model_artifacts(model_id, str(files))
        self.client.finalize_logged_model(model_id, "READY")
        step = int(about.get("step", 0))
        self._link(run_id, model_id, step)
        figures, stamp = about.get("validation", {}), (stamps or {}).get(step)
        data = (validated_on.name, validated_on.digest) if validated_on else (None, None)
        points = {key: self._point_of(run_id, key, step, value, stamp) for key, value in figures.items()}
        rows = [Metric(key, *point, step, model_id, *data) for key, point in points.items() if point]
        self.client.log_batch(run_id, metrics=rows, tags=_model_tags(tags.STORED, model_id))
        return model_id

    def link_model(self, run_id: str, model_run: str, step: int) -> None:
        """Show the model of `model_run` as a result of this run too."""
        if model_id := self.model_id(model_run):
            self._link(run_id, model_id, step)

    def _link(self, run_id: str, model_id: str, step: int) -> None:
        """Note that the run made the model, once: MLflow refuses to note it twice."""
        outputs = self.client.get_run(run_id).outputs
        known = {each.model_id for each in outputs.model_outputs} if outputs else set()
        if model_id not in known:
            self.client.log_outputs(run_id, [LoggedModelOutput(model_id, step)])

    def drop_model(self, run_id: str) -> None:
        """Delete the model of a trial that better ones have overtaken."""
        try:
            self.delete_model(self.client.get_run(run_id))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":  # it may be called again after an interruption
                raise
        self.client.log_batch(run_id, tags=_model_tags("dropped: others did better", ""))

    def has_model(self, run_id: str) -> bool:
        return bool(self.client.get_run(run_id).data.tags.get(tags.MODEL) == tags.STORED)

    def model_id(self, run_id: str) -> str:
        """Return the id of the run's LoggedModel; nothing where it has none."""
        return str(self.client.get_run(run_id).data.tags.get(tags.MODEL_ID, ""))

    @contextlib.contextmanager
    def model_folder(self, run_id: str) -> Iterator[Path | None]:
        """Yield a temporary folder with the model of this run; None when it has none."""
        labels = self.client.get_run(run_id).data.tags
        if labels.get(tags.MODEL) != tags.STORED:
            yield None
            return
        model_id = labels.get(tags.MODEL_ID)
        with scratch_folder() as scratch:
            try:
                uri = self.client.get_logged_model(model_id).artifact_location if model_id else None
                self._bring(uri or self.client.get_run(run_id).info.artifact_uri)
                place = {"artifact_uri": uri} if uri else {"run_id": run_id, "artifact_path": MODEL}
                folder = download_artifacts(
                    **place, dst_path=str(scratch), tracking_uri=self._store.tracking_uri
                )
            except (MlflowException, OSError) as error:
                raise UserError(
                    f"the model of run {run_id} cannot be read ({type(error).__name__}): its artifacts are "
                    "not where the store says. Put the store back to its place, or train the model again."
                ) from None
            yield Path(folder)

    def stored_at(self, run: Run) -> Path | None:
        """Return the folder of the run's model in the store; None for one that is elsewhere."""
        if model_id := run.data.tags.get(tags.MODEL_ID):
            uri = str(self.client.get_logged_model(model_id).artifact_location)
            self._bring(uri)
            return self.local_folder(uri)
        self._bring(str(run.info.artifact_uri))
        folder = self.local_folder(str(run.info.artifact_uri))
        return None if folder is None else folder / MODEL

    # ---- the registry

    def register(self, name: str, champion: str, challenger: str | None, about: str) -> None:
        """Register the models of two runs under the name of their search, with aliases.

        A registered model of this name that is not the search's stays as it is. A server may have no
        registry, or give no right to it: that is a warning.
        """
        try:
            if self._registered(name, about):
                self._set_aliases(name, champion, challenger)
        except MlflowException as error:
            log.warning("'%s' is not in the model registry: %s", name, str(error).splitlines()[0])

    def _set_aliases(self, name: str, champion: str, challenger: str | None) -> None:
        versions = {version.model_id: version for version in self._versions(name)}
        for alias, run_id in ((CHAMPION, champion), (CHALLENGER, challenger)):
            model_id = self.model_id(run_id) if run_id else ""
            if not run_id or not model_id:
                with contextlib.suppress(MlflowException):
                    self.client.delete_registered_model_alias(name, alias)
                continue
            if model_id not in versions:
                versions[model_id] = self.client.create_model_version(
                    name,
                    self._source(model_id),
                    run_id,
                    {tags.NAME: name},
                    description=str(self.client.get_run(run_id).info.run_name),
                    model_id=model_id,
                )
            self.client.set_registered_model_alias(name, alias, str(versions[model_id].version))

    def delete_registered(self, name: str) -> None:
        """Delete the registered model of a search; one of this name that is not the search's stays."""
        if self.is_registered(name):
            self.client.delete_registered_model(name)

    def is_registered(self, name: str) -> bool:
        """Whether the model registry has a model of this search."""
        with contextlib.suppress(MlflowException):
            return bool(self.client.get_registered_model(name).tags.get(tags.NAME) == name)
        return False

    def _source(self, model_id: str) -> str:
        """Return the address that a version comes from.

        MLflow 3.17 looks `models:/` up in the default database of the process, not in that of the store.
        """
        if not self._store.owns_tracking:
            return f"models:/{model_id}"
        return str(self.client.get_logged_model(model_id).artifact_location)

    def _registered(self, name: str, about: str) -> bool:
        """Whether the registered model `name` is that of the search; a missing one is made.

        The description of an earlier session is replaced, one that somebody has written is not.
        """
        with contextlib.suppress(MlflowException):
            self.client.create_registered_model(name, {tags.NAME: name}, about)
        if not self.is_registered(name):
            return False
        before = str(self.client.get_registered_model(name).description or "")
        if before != about and before.startswith(about.partition(" found.")[0]):
            self.client.update_registered_model(name, about)
        return True

    def _versions(self, name: str) -> list[Any]:
        return list(self.client.search_model_versions(f"name = '{name}'"))

    # ---- parts

    def _point_of(
        self, run_id: str, key: str, step: int, value: float, stamp: int | None
    ) -> tuple[float, int] | None:
        """Return value and time stamp of a figure that the run has; None when the stamp is not known."""
        return (value, stamp) if stamp else None

    def _model_of(self, run_id: str, experiment_id: str) -> str:
        """Return the model that an interrupted call has begun for this run."""
        found = self.client.search_logged_models(
            [experiment_id], filter_string=f"source_run_id = '{run_id}'", max_results=1
        )
        return str(found[0].model_id) if found else ""

    def delete_model(self, run: Run) -> None:
        """Delete the run's model, its registered versions included."""
        model_id = run.data.tags.get(tags.MODEL_ID)
        if not model_id:
            if run.data.tags.get(tags.MODEL) == tags.STORED:
                self.delete_files(run.info.artifact_uri, MODEL)
            return
        for version in self.client.search_model_versions(f"run_id = '{run.info.run_id}'"):
            if version.model_id == model_id:
                self.client.delete_model_version(version.name, str(version.version))
        self.delete_files(self.client.get_logged_model(model_id).artifact_location)
        self.client.delete_logged_model(model_id)
        if self._store.owns_tracking:
            self.database._hard_delete_logged_model(model_id)  # as `mlflow gc` does
            with self.database.ManagedSessionMaker(read_only=False) as session:
                links = session.query(SqlInput).filter(SqlInput.destination_id == model_id)
                links.delete(synchronize_session=False)


def _model_tags(state: str, model_id: str) -> list[RunTag]:
    return [RunTag(tags.MODEL, state), RunTag(tags.MODEL_ID, model_id)]


def _described(file: Path) -> dict[str, Any]:
    """Return what the model says of itself; nothing where it says nothing."""
    if not file.is_file():
        return {}
    about: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
    return about


def _linked(source: str, target: str) -> None:
    """Link a file where the file system can, else copy it: weights are large."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)
