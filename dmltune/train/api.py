"""`dmltune.train`: one experiment, here and now. The same loop, folder and checkpoints as a trial of a
search.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch

from dmltune.errors import UserError
from dmltune.experiment import Experiment
from dmltune.store import Store, validated_name
from dmltune.train.build import validate_experiment
from dmltune.train.name_claim import claim_name
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import plan, ray_session, threads_of, usable_cores
from dmltune.train.trial import run_trial


def train(
    experiment: Experiment,
    *,
    name: str | None = None,
    workers: int = 1,
    threads: int | None = None,
    store: Store | None = None,
    data_root: Path | None = None,
    address: str | None = None,
) -> Iterator[TrialReport]:
    """Yields a report per validation. The reference point is trained when the experiment has a space.

    The same `name` goes on where it stopped. One worker trains in this process, more of them in Ray Train.
    """
    if workers < 1:
        raise UserError(f"--workers must be at least 1; got {workers}")
    name = validated_name(name or f"train-{time.strftime('%Y%m%d-%H%M%S')}")
    store = store or Store.at()
    fingerprint = validate_experiment(experiment, data_root, workers)
    with claim_name(store, name, experiment, fingerprint):
        order = Order(
            id=name,
            experiment=experiment.reference_experiment().to_dict(),
            folder=str(training_folder(store, name)),
            data_root=str(Path(data_root).absolute()) if data_root else None,
            threads=threads or threads_of(usable_cores()),
        )
        if workers == 1:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            before = torch.get_num_threads()
            torch.set_num_threads(order.threads)
            try:
                yield from run_trial(order, device)
            finally:
                torch.set_num_threads(before)
        else:
            yield from _in_workers(order, workers, address)


def training_folder(store: Store, name: str) -> Path:
    """Where the checkpoints of a training are."""
    return store.search_folder(name) / "trials" / "0000"


def _in_workers(order: Order, workers: int, address: str | None) -> Iterator[TrialReport]:
    with ray_session(address) as session:
        import ray

        from dmltune.train.slots import running_slots

        layout = plan(session, workers, 1)
        order = Order(**vars(order) | {"threads": layout.threads})
        with running_slots(session, layout, "slot") as slots:
            ray.get(slots.broker.post.remote(order))
            number = -1
            while True:
                waiting = slots.broker.next_report.remote(order.id, number)
                while not ray.wait([waiting], timeout=1.0)[0]:
                    if (failure := slots.failure()) is not None:
                        raise failure
                report = ray.get(waiting)
                if report is None:  # the broker was restarted
                    ray.get(slots.broker.post.remote(order))
                    continue
                number = report.number
                yield report
                if report.finished:
                    return
