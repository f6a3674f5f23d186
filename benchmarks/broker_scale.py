"""1 to 256 worker groups without machines: reports a second, latency and memory of broker and records.

    python benchmarks/broker_scale.py [--groups 1 4 16 64 256] [--seconds 10] [--picture docs/scale.png]

The broker is the real one, an actor of a local Ray. Its groups are simulated: many in a process, each with
the real messages of a group (next_order, report, wait_left, verdict) and no training. Trials ask from other
processes, as Tune's do. The driver's part is measured apart: how many reports a second the records (study and
MLflow, both SQLite) take, which one thread writes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import ray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from dmltune.train.broker import Broker
from dmltune.train.orders import Order, TrialReport
from dmltune.train.ray_session import ray_session
from dmltune.train.worker import HEARTBEAT_S, STEPS_S

REPORTS = 5  # of an order
METRICS = {f"metric_{number}": 0.5 for number in range(14)}


@ray.remote(num_cpus=0)
class Groups:
    """Worker groups that train nothing: as many messages as the real ones, as fast as they are answered."""

    async def ready(self) -> bool:
        return True

    async def serve(self, broker: Any, names: list[str], think_s: float) -> None:
        await asyncio.gather(*(self._serve(broker, name, think_s) for name in names))

    async def _serve(self, broker: Any, name: str, think_s: float) -> None:
        await broker.register.remote(name)
        while True:
            order = await broker.next_order.remote(name, HEARTBEAT_S)
            if order == "stop":
                return
            if order == "idle":
                continue
            watch = asyncio.ensure_future(self._watch(broker, name, order.id))
            for number in range(REPORTS):
                await asyncio.sleep(think_s)
                last = number == REPORTS - 1
                report = TrialReport(number, number, REPORTS, METRICS, 0.5, 0.5, finished=last)
                await broker.report.remote(name, order.id, report)
                verdict = "wait"
                while not last and verdict == "wait":
                    verdict = await broker.verdict.remote(name, order.id, number, HEARTBEAT_S)
            await watch

    async def _watch(self, broker: Any, name: str, order_id: str) -> None:
        step = 0
        while not await broker.wait_left.remote(name, order_id, STEPS_S, step):
            step += 1


@ray.remote(num_cpus=0)
class Trials:
    """Trials that ask for the reports of orders of real size, until the time is over."""

    async def ready(self) -> bool:
        return True

    async def ask(self, broker: Any, names: list[str], order: dict[str, Any], seconds: float) -> list[float]:
        until = time.monotonic() + seconds
        found = await asyncio.gather(*(self._ask(broker, name, order, until) for name in names))
        return [latency for each in found for latency in each]

    async def _ask(self, broker: Any, name: str, order: dict[str, Any], until: float) -> list[float]:
        latencies, index = [], 0
        while time.monotonic() < until:
            number, finished, index = -1, False, index + 1
            while not finished:
                asked = time.perf_counter()
                own = Order(**{**order, "id": f"{name}/{index}"})
                report = await broker.next_report.remote(own, number)
                latencies.append(time.perf_counter() - asked)
                number, finished = report.number, report.finished
            await broker.close.remote(f"{name}/{index}")
        return latencies


def measure(groups: int, seconds: float, think_s: float) -> dict[str, float]:
    """Return reports a second, the wait for a report beyond the time that a group thinks, and memory."""
    from dmltune.experiment import load_experiment

    order = {"experiment": load_experiment("cub-ccp").fixed().to_dict(), "folder": "/nowhere", "id": ""}
    broker: Any = ray.remote(Broker).options(num_cpus=0, max_concurrency=1000 + 6 * groups).remote()
    ray.get(broker.steps.remote())
    pid = _pid_of_broker()
    parts = max(1, groups // 64)
    names = [f"group-{number}" for number in range(groups)]
    servers, askers = [Groups.remote() for _ in range(parts)], [Trials.remote() for _ in range(parts)]
    ray.get([actor.ready.remote() for actor in (*servers, *askers)])  # their start is not measured
    serving = [
        server.serve.remote(broker, names[part::parts], think_s) for part, server in enumerate(servers)
    ]
    began = time.perf_counter()
    busy = psutil.Process(pid).cpu_times()
    asked = [
        asker.ask.remote(broker, names[part::parts], order, seconds) for part, asker in enumerate(askers)
    ]
    latencies = sorted(latency for each in ray.get(asked) for latency in each)
    took = time.perf_counter() - began
    memory = psutil.Process(pid).memory_info().rss / 2**20
    after = psutil.Process(pid).cpu_times()
    cpu = (after.user + after.system - busy.user - busy.system) / took
    ray.get(broker.stop.remote())
    ray.get(serving)
    for actor in (broker, *servers, *askers):
        ray.kill(actor)
    return {
        "groups": groups,
        "reports_a_second": len(latencies) / took,
        "median_ms": 1000 * (statistics.median(latencies) - think_s),
        "p99_ms": 1000 * (latencies[int(0.99 * len(latencies))] - think_s),
        "broker_mb": memory,
        "broker_cores": cpu,
        "broker_ms_a_report": 1000 * cpu * took / len(latencies),
    }


def _pid_of_broker() -> int:
    """Return the process of the youngest broker: the one before may still be ending."""
    brokers = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if (process.cmdline() or [""])[0].startswith("ray::Broker"):
                brokers.append((process.create_time(), process.pid))
    return int(max(brokers)[1])


def records_a_second(reports: int) -> tuple[float, float]:
    """Return how many reports a second one thread writes into study and MLflow, and its CPU ms for each."""
    from support.trial_records import EXPERIMENT, REFERENCE, open_records

    with tempfile.TemporaryDirectory() as folder:
        records = open_records(Path(folder))
        numbers = [records.open("search", REFERENCE, 1000).number for _ in range(4)]
        began, busy = time.perf_counter(), time.process_time()
        for step in range(1, reports // 4 + 1):
            for number in numbers:
                report = TrialReport(step, step, 1000, {"map_at_r": 0.5, **METRICS}, 0.5, 0.5, step)
                records.progress(number, report, EXPERIMENT)
        took, busy = time.perf_counter() - began, time.process_time() - busy
        return reports / took, 1000 * busy / reports


def draw(rows: list[dict[str, float]], records: float, records_ms: float, file: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    groups = [row["groups"] for row in rows]
    cores = [1000 / row["broker_ms_a_report"] for row in rows]
    left.plot(groups, cores, "o:", color="#0072B2", label="broker, with a core of its own")
    measured = [row["reports_a_second"] for row in rows]
    left.plot(groups, measured, "o-", color="#0072B2", label="broker, measured")
    left.axhline(1000 / records_ms, color="#D55E00", linestyle=":", label="records, with a core of their own")
    left.axhline(records, color="#D55E00", label="records (SQLite), measured")
    left.set(xscale="log", yscale="log", xlabel="worker groups", ylabel="reports a second", ylim=(1, 3000))
    for name, colour in (("median_ms", "#0072B2"), ("p99_ms", "#E69F00")):
        right.plot(groups, [row[name] for row in rows], "o-", color=colour, label=name.removesuffix("_ms"))
    right.set(xscale="log", yscale="log", xlabel="worker groups", ylabel="ms until a report is there")
    for axis in (left, right):
        axis.set_xticks(groups, [str(number) for number in groups])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 4, 16, 64, 256])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--think", type=float, default=0.0, help="seconds that a group takes for a report")
    parser.add_argument("--reports", type=int, default=400, help="that the records are measured with")
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    records, records_ms = records_a_second(args.reports)
    print(f"records (SQLite): {records:.1f} reports a second, {records_ms:.1f} ms of a core for each")
    rows = []
    with ray_session(None):
        for groups in args.groups:
            rows.append(measure(groups, args.seconds, args.think))
            print(json.dumps({name: round(value, 2) for name, value in rows[-1].items()}), flush=True)
    if args.picture:
        draw(rows, records, records_ms, args.picture)


if __name__ == "__main__":
    main()
