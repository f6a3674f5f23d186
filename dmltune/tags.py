"""Names of the tags that dmltune writes into MLflow runs, and what their values mean."""

from __future__ import annotations

from typing import Literal

NAME = "dmltune.search"  # of the search, training, check or study that the run belongs to
NUMBER = "dmltune.number"  # PARENT, the number of a trial, or the name of a member
ROLE = "dmltune.role"
STATE = "dmltune.state"
REASON = "dmltune.reason"  # why a run failed or was stopped
IDLE = "dmltune.idle"  # searched parameters that had no effect in the trial, and why
DRIVER = "dmltune.driver"  # host:pid:start of the process that writes the run
SEED = "dmltune.seed"
DATA = "dmltune.data"  # data set:fingerprint of its training images
PROTOCOL = "dmltune.protocol"
MODEL = "dmltune.model"  # STORED, or why there is none
WINNER = "dmltune.winner"  # run id
WINNER_TRIAL = "dmltune.winner_trial"
WINNER_MODEL = "dmltune.winner_model"  # run id with the model: the winner's, or that of a repetition of it
CHECKED = "dmltune.checked"  # the search that a check is about
CONFIGURATION = "dmltune.configuration"
FIDELITY = "dmltune.fidelity"  # the settings of a cheap trial
FOLD = "dmltune.fold"
NOTE = "mlflow.note.content"
PARENT_RUN = "mlflow.parentRunId"

PARENT = "parent"
STORED = "yes"

State = Literal["complete", "pruned", "failed", "interrupted"]
Role = Literal[
    "search", "reference", "baseline", "repeat", "cheap", "training", "check", "member", "reproduction"
]
