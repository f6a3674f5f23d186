"""Data sets as inputs of runs: which classes of which data set were trained, validated or tested on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

Context = Literal["training", "validation", "test"]
_CONTEXT = "mlflow.data.context"


@dataclass(frozen=True)
class DataInput:
    """Some classes of a data set. `digest` is the fingerprint of its images, `source` where they come from.

    MLflow has one input for each name and digest in a run, so the classes of each context have an own name.
    """

    name: str
    digest: str
    context: Context
    source: str = ""

    def to_mlflow(self) -> DatasetInput:
        dataset = Dataset(
            name=self.name,
            digest=self.digest[:36],
            source_type="dmltune",
            source=json.dumps({"uri": self.source or self.name}),
        )
        return DatasetInput(dataset, [InputTag(_CONTEXT, self.context)])


def log_inputs(client: MlflowClient, run_id: str, inputs: Sequence[DataInput]) -> None:
    """Log the inputs of a run. MLflow fails when another process logs the same new data at that moment."""
    rows = [each.to_mlflow() for each in inputs]
    try:
        client.log_inputs(run_id, rows)
    except MlflowException as error:
        if "IntegrityError" not in str(error):
            raise
        client.log_inputs(run_id, rows)  # by now the other one has made them
