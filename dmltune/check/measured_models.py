"""The trained models of a check with their figures on the test classes.

N test images, Q queries. All figures are fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dmltune.check.document import ModelResult
from dmltune.check.plan import CheckPlan, PlannedModel
from dmltune.train.measurement import read_measurement
from dmltune.train.run_series import RunSeries


@dataclass(frozen=True)
class MeasuredModel:
    """A trained member. A precision of NaN marks a query without a match."""

    member: PlannedModel
    result: ModelResult
    geometry: Mapping[str, float]
    distances: Mapping[str, Any]
    precision_Q: Tensor
    nearest_Q: Tensor
    matched_Q: Tensor

    @property
    def pair(self) -> tuple[int, int]:
        """Fold and seed. Models of two configurations are compared when both are equal."""
        return self.member.fold, self.member.seed


def read_models(plan: CheckPlan, series: RunSeries) -> dict[str, list[MeasuredModel]]:
    """Return configuration → its models, without those that failed."""
    models: dict[str, list[MeasuredModel]] = {each.key: [] for each in plan.configurations}
    for member in plan.members():
        if (model := _read(series, member)) is not None:
            models[member.key].append(model)
    return models


def _read(series: RunSeries, member: PlannedModel) -> MeasuredModel | None:
    trained = series.result(member.name)
    if trained is None:
        return None
    folder = series.member_folder(member.name)
    tensors, facts = read_measurement(folder, "average_precision", "nearest", "matched")
    result = ModelResult(
        member=member.name,
        fold=member.fold,
        seed=member.seed,
        run_id=trained["run_id"],
        step=trained["step"],
        validation=trained["validation"],
        test=facts["metrics"],
    )
    return MeasuredModel(
        member=member,
        result=result,
        geometry=facts["geometry"],
        distances=facts["distances"],
        precision_Q=tensors["average_precision"].double().masked_fill(~tensors["matched"], torch.nan),
        nearest_Q=tensors["nearest"],
        matched_Q=tensors["matched"],
    )
