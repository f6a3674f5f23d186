"""A tracker whose writes wait on disk while the tracking server is away, and arrive exactly once.

A write goes to the server at once while nothing waits (delivery.py). The first one that the server does not
take (no connection, no answer in time, an error 5xx) waits with all that follow until the server answers
again. The server may have taken a write whose answer was lost, so a delivery reads first what is there: a
point (metric, step) that exists is not sent again. Points keep the time of their measurement.

A run that is opened while the server is away has the id `pending/NAME/NUMBER`, which `resolved` turns into
MLflow's once it is delivered.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlflow.exceptions import MlflowException

from dmltune import tags
from dmltune.store import Store, without_password
from dmltune.tracking.absence import is_away
from dmltune.tracking.data_inputs import DataInput
from dmltune.tracking.delivery import Delivery
from dmltune.tracking.models import MODEL
from dmltune.tracking.tracker import PENDING, Tracker, now_ms

TIMEOUT_S = "10"  # of a request: the search waits for its answer
_PATHS = {"log_model": "folder", "log_folder": "files", "log_file": "path"}  # arguments that are paths


class SpooledTracker(Tracker):
    """The tracker of one search. `folder` keeps what waits; a store's own database never is away."""

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__(store)
        if not store.owns_tracking:
            # a request that MLflow's client repeats by itself may be done twice
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
            os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", TIMEOUT_S)
        self._delivery = Delivery(folder, without_password(store.tracking_uri), self._call)
        self._state = threading.local()  # .inside: a method calls another; .again: it is written again
        self._reopened: set[str] = set()  # runs that may have points already
        self._points: dict[tuple[str, str], dict[int, tuple[float, int]]] = {}  # (run, metric) → by step

    @property
    def notes(self) -> deque[str]:
        """What the user should be told, once each."""
        return self._delivery.notes

    def deliver(self) -> None:
        """Deliver what an earlier session has left. A server that does not take it is a UserError."""
        self._delivery.deliver()

    def flush(self, seconds: float) -> None:
        """Wait until all is delivered; after `seconds` a UserError says what is missing."""
        self._delivery.flush(seconds)

    @property
    def away(self) -> bool:
        """Whether writes wait for the server."""
        return self._delivery.away

    def _send(self, method: str, arguments: dict[str, Any]) -> Any:
        """Call a method of Tracker now, or let it wait; return None when it waits."""
        if self._is("inside") or self._store.owns_tracking:
            return self._call(method, arguments, self._is("again"))
        return self._delivery.send(method, arguments, _PATHS.get(method, ""))

    def _call(self, method: str, arguments: dict[str, Any], again: bool) -> Any:
        given = dict(arguments)
        with self._noting(inside=True, again=again):
            if again and method == "begin_run":
                self._remove_doubles(given["key"])
            if "run_id" in given:
                given["run_id"] = self.resolved(given["run_id"])
            for name in ("data", "validated_on"):
                if isinstance(given.get(name), dict):
                    given[name] = DataInput(**given[name])
            if "inputs" in given:
                given["inputs"] = tuple(DataInput(**each) for each in given["inputs"])
            if given.get("model_id") == PENDING:
                given["model_id"] = self.model_id(given["run_id"])
            if "stamps" in given:
                given["stamps"] = {int(step): stamp for step, stamp in given["stamps"].items()}
            if method in _PATHS:
                given[_PATHS[method]] = Path(given[_PATHS[method]])
            called: Any = self if method == "log" else super()  # `log` below looks what is missing
            return getattr(called, method)(**given)

    def _remove_doubles(self, key: Mapping[str, str]) -> None:
        """A server that was too slow may have made the run twice: keep the older one."""
        for extra in self.runs_of(key)[1:]:
            if not extra.data.metrics:
                self.client.delete_run(extra.info.run_id)

    def _is(self, flag: str) -> bool:
        return bool(getattr(self._state, flag, False))

    @contextlib.contextmanager
    def _noting(self, **flags: bool) -> Iterator[None]:
        before = {flag: self._is(flag) for flag in flags}
        vars(self._state).update(flags)
        try:
            yield
        finally:
            vars(self._state).update(before)

    # ---- what is written

    def begin_run(
        self,
        experiment_id: str,
        name: str,
        key: Mapping[str, str],
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        parent: str | None = None,
        inputs: Sequence[DataInput] = (),
        started: int | None = None,
    ) -> tuple[str, bool]:
        arguments = {
            "experiment_id": experiment_id,
            "name": name,
            "key": dict(key),
            "params": {each: str(value) for each, value in params.items()},
            "tags": {each: str(value) for each, value in tags.items()},
            "parent": parent,
            "inputs": [asdict(each) for each in inputs],
            "started": started or now_ms(),
        }
        if parent is None:  # the search's own run: without it there is nothing to add to
            return self._call("begin_run", arguments, False)  # type: ignore[no-any-return]
        answer = self._send("begin_run", arguments)
        if answer is None:
            return pending_id(key), True
        run_id, is_new = answer
        if not is_new:
            self._reopened.add(run_id)
        return run_id, is_new

    def log(
        self,
        run_id: str,
        step: int,
        metrics: Mapping[str, float],
        *,
        data: DataInput | None = None,
        model_id: str = "",
        labels: Mapping[str, Any] | None = None,
        stamp: int | None = None,
    ) -> int:
        if self._is("inside"):
            metrics = self._missing(run_id, step, metrics)
            return super().log(
                run_id, step, metrics, data=data, model_id=model_id, labels=labels, stamp=stamp
            )
        stamp = stamp or now_ms()
        arguments = {
            "run_id": run_id,
            "step": step,
            "metrics": {name: float(value) for name, value in metrics.items()},
            "data": asdict(data) if data else None,
            "model_id": model_id,
            "labels": _texts(labels),
            "stamp": stamp,
        }
        self._send("log", arguments)
        return stamp

    def tag(self, run_id: str, values: Mapping[str, Any]) -> None:
        self._send("tag", {"run_id": run_id, "values": _texts(values)})

    def close_run(
        self,
        run_id: str,
        state: tags.State,
        reason: str = "",
        *,
        step: int = 0,
        metrics: Mapping[str, float] | None = None,
        labels: Mapping[str, Any] | None = None,
        data: DataInput | None = None,
        model_id: str = "",
        stamp: int | None = None,
    ) -> None:
        arguments = {
            "run_id": run_id,
            "state": state,
            "reason": reason,
            "step": step,
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
            "labels": _texts(labels),
            "data": asdict(data) if data else None,
            "model_id": model_id,
            "stamp": stamp or now_ms(),
        }
        self._send("close_run", arguments)

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
        arguments = {
            "run_id": run_id,
            "folder": str(folder),
            "name": name,
            "params": _texts(params),
            "validated_on": asdict(validated_on) if validated_on else None,
            "stamps": {str(step): stamp for step, stamp in (stamps or {}).items()},
        }
        return self._send("log_model", arguments) or PENDING

    def drop_model(self, run_id: str) -> None:
        self._send("drop_model", {"run_id": run_id})

    def log_folder(self, run_id: str, files: Path, folder: str) -> None:
        self._send("log_folder", {"run_id": run_id, "files": str(files), "folder": folder})

    def log_file(self, run_id: str, path: Path, folder: str | None = None) -> None:
        self._send("log_file", {"run_id": run_id, "path": str(path), "folder": folder})

    def log_text(self, run_id: str, name: str, text: str) -> None:
        self._send("log_text", {"run_id": run_id, "name": name, "text": text})

    # ---- what is there already

    def logged_steps(self, run_id: str, metric: str) -> set[int]:
        """Nothing while the server is away: a delivery looks itself."""
        try:
            if not self.away:
                return super().logged_steps(run_id, metric)
        except MlflowException as error:
            if not is_away(error):
                raise
        self._reopened.add(run_id)
        return set()

    def _missing(self, run_id: str, step: int, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics that the run does not have at this step, where it may have some."""
        found = dict(metrics)
        if self._is("again") or run_id in self._reopened:
            found = {name: value for name, value in found.items() if step not in self._history(run_id, name)}
        for name in found:
            self._points.pop((run_id, name), None)  # outdated by this write
        return found

    def _point_of(
        self, run_id: str, key: str, step: int, value: float, stamp: int | None
    ) -> tuple[float, int] | None:
        """A training that repeats a step after a kill has another value of what is measured in seconds."""
        if not (self._is("again") or run_id in self._reopened):
            return super()._point_of(run_id, key, step, value, stamp)
        return self._history(run_id, key).get(step)

    def _history(self, run_id: str, metric: str) -> dict[int, tuple[float, int]]:
        known = self._points.get((run_id, metric))
        if known is None:
            points = self.client.get_metric_history(run_id, metric)
            known = {int(point.step): (float(point.value), int(point.timestamp)) for point in points}
            self._points[run_id, metric] = known
        return known


def pending_id(key: Mapping[str, str]) -> str:
    """Return the id of a run that the server has not made yet."""
    return f"{PENDING}/{key[tags.NAME]}/{key[tags.NUMBER]}"


def _texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (values or {}).items()}
