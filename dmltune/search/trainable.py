"""A trial as Ray Tune sees it: a small actor that asks the broker for the reports of its order."""

from __future__ import annotations

import contextlib
import json
import secrets
from typing import Any

import ray
from ray import tune

from dmltune.train.orders import Order, TrialReport


class BrokerTrainable(tune.Trainable):
    """One report per `step`. The training itself happens in a worker group.

    Tune reuses the actor for trial after trial (`reset_config`). An actor that was killed starts again from
    the first report; the records ignore what they have already. Leaving an order pauses it: a paused trial is
    continued later, and an order that is closed stays closed.
    """

    def setup(self, config: dict[str, Any]) -> None:
        self._order = Order(**json.loads(config["order"]))
        self._broker: Any = ray.get_actor(config["broker"], namespace=config["namespace"])
        self._number = -1
        self._asker = secrets.token_hex(8)  # this trial of Tune's: a paused order comes back in another one

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        report: TrialReport = ray.get(self._broker.next_report.remote(self._order, self._number, self._asker))
        self._number = report.number
        return _result(report)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the weights are in the trial's own folder, and the records know how far it is."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing."""

    def cleanup(self) -> None:
        with contextlib.suppress(ray.exceptions.RayError):  # the search is ending
            ray.get(self._broker.pause.remote(self._order.id, self._asker), timeout=10)


def _result(report: TrialReport) -> dict[str, Any]:
    """Return what Tune passes on; the report as text, because Tune would flatten it."""
    report_text = json.dumps(report.to_dict())
    result: dict[str, Any] = {"step": report.step, "done": report.finished, "report": report_text}
    if report.score is not None and not report.failure:
        result["score"] = report.score
    return result
