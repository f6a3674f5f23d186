"""A trial as Ray Tune sees it: a tiny actor that posts an order and asks for its reports, one per `step`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ray
from ray import tune

from dmltune.train.orders import Order, TrialReport


class BrokerTrainable(tune.Trainable):
    """Reused trial after trial (`reset_config`). The training itself happens in a slot.

    A proxy that was killed starts again from the first report; what is written already is not written twice.
    """

    def setup(self, config: dict[str, Any]) -> None:
        self._order = Order(**json.loads(config["order"]))
        self._protected = bool(config["protected"])
        self._broker: Any = ray.get_actor(config["broker"], namespace=config["namespace"])
        self._number = -1

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        report = self._next()
        self._number = report.number
        return _result(report) | {"protected": self._protected}

    def _next(self) -> TrialReport:
        while True:
            ray.get(self._broker.post.remote(self._order))
            report: TrialReport | None = ray.get(
                self._broker.next_report.remote(self._order.id, self._number)
            )
            if report is not None:  # None: the broker was restarted and does not know the order any more
                return report

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The weights are in the trial's folder; Tune keeps only the place."""
        Path(checkpoint_dir, "place.json").write_text(json.dumps({"number": self._number}))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._number = int(json.loads(Path(str(checkpoint), "place.json").read_text())["number"])


def _result(report: TrialReport) -> dict[str, Any]:
    """What Tune sees of a report. A failed trial has no score, so that no scheduler ranks it."""
    result: dict[str, Any] = {
        "step": report.step,
        "done": report.finished,
        "report": json.dumps(vars(report)),
    }
    if report.score is not None and not report.failure:
        result["score"] = report.score
    return result
