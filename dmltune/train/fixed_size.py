"""The size of a worker group without an autoscaler. Controllers import this file, so it imports no torch."""

from __future__ import annotations

from typing import Any

from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy


class FixedSize(FixedScalingPolicy):
    """Tell nobody which workers are wanted: Ray starts a process for it, which asks an autoscaler."""

    def after_controller_start(self, train_run_context: Any) -> None:
        """Nothing; without this start the end has nothing to take back."""

    def _maybe_send_resource_request(self) -> None:
        """Nothing."""
