"""Runs and models in MLflow: an experiment per space, a parent run per search, a child per trial.

Only this room imports mlflow. Everything is written by the driver through `MlflowClient` with explicit run
ids; there is no global active run. A run is identified by its tags (`tags.NAME`, `tags.NUMBER`), so writing
twice is writing once.
"""

from __future__ import annotations

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # a user's data stays on the user's machines
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # stdout is for results
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

from dmltune.tracking.data_inputs import DataInput as DataInput
from dmltune.tracking.spooled import SpooledTracker as SpooledTracker
from dmltune.tracking.tracker import Run as Run
from dmltune.tracking.tracker import Tracker as Tracker
