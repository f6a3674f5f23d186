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
MODEL_ID = "dmltune.model_id"  # of MLflow's LoggedModel; models of earlier versions have none
SEARCHED = "dmltune.searched"  # the searched keys, which all trials of a search have as parameters
WINNER_VALUES = "dmltune.winner."  # and a searched key: its value in the winner
WINNER_SET = "dmltune.winner_set"  # numbers of the trials that cannot be told from the winner
CHECKED = "dmltune.checked"  # the search that a check is about
CONFIGURATION = "dmltune.configuration"
FIDELITY = "dmltune.fidelity"  # the settings of a cheap trial
FOLD = "dmltune.fold"
NOTE = "mlflow.note.content"
PARENT_RUN = "mlflow.parentRunId"
RUN_NAME = "mlflow.runName"
IMAGES = "mlflow.loggedImages"
COLOUR = "mlflow.runColor"

PARENT = "parent"
STORED = "yes"

State = Literal["complete", "pruned", "failed", "interrupted"]
Role = Literal[
    "search", "reference", "baseline", "repeat", "cheap", "training", "check", "member", "reproduction"
]

# colours that people with any colour vision tell apart (Okabe and Ito)
COLOURS: dict[str, str] = {
    "search": "#0072B2",
    "training": "#0072B2",
    "member": "#0072B2",
    "reference": "#E69F00",
    "baseline": "#D55E00",
    "repeat": "#56B4E9",
    "cheap": "#F0E442",
    "parent": "#CC79A7",  # of a search
    "check": "#CC79A7",
    "reproduction": "#CC79A7",
    "winner": "#009E73",
    "pruned": "#A6A6A6",
    "interrupted": "#A6A6A6",
    "failed": "#444444",
}
