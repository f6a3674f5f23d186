"""The faults of chaos.py, each a function that breaks something of a World and lets it be whole again."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

import psutil
from chaos_world import World, title_of

AWAY_S = 10.0
NO_GCS_S = 150.0  # a driver without a GCS must have ended by then
_NODES = "second", "third"


def _worker(world: World) -> None:
    _kill_one(world, "RayTrainWorker")


def _conductor(world: World) -> None:
    _kill_one(world, "TrainController")


def _driver(world: World) -> None:
    assert world.driver is not None
    world.driver.kill()
    world.driver.wait(10)
    world.start_driver()


def _mlflow(world: World) -> None:
    world.mlflow.kill()
    world.proxy.mode = "refuse"
    world.watch(AWAY_S / 2)  # and as long as it takes to start
    world.mlflow.start()
    world.proxy.mode = "pass"


def _storage(world: World) -> None:
    """The artifact store fails for some seconds; runs and metrics work."""
    world.proxy.only, world.proxy.mode = "mlflow-artifacts", "error"
    world.watch(AWAY_S)
    world.proxy.only, world.proxy.mode = "", "pass"


def _postgres(world: World) -> None:
    if world.database is not None:
        world.database.restart()


def _disk(world: World) -> None:
    filler = world.store / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    time.sleep(AWAY_S)
    filler.unlink()


def _node(world: World) -> None:
    assert world.cluster is not None
    (name,) = world.cluster.nodes
    world.cluster.kill_node(name)
    world.watch(2)
    _add_node(world, name)


def _partition(world: World) -> None:
    """A node that neither answers nor dies, until the cluster has given it up."""
    assert world.cluster is not None
    (name,) = world.cluster.nodes
    node = psutil.Process(world.cluster.nodes[name].pid)
    processes = [node, *node.children(recursive=True)]
    _signal(processes, signal.SIGSTOP)
    world.watch(AWAY_S)
    _signal(processes, signal.SIGCONT)
    world.watch(AWAY_S)
    world.cluster.kill_node(name)
    _add_node(world, name)


def _gcs(world: World) -> None:
    """The GCS is gone, and the rest of the head stays."""
    command = [process for process in world.look() if " start --head " in title_of(process)]
    _signal(command, signal.SIGSTOP)  # `ray start --block` would end the rest of the head
    _kill_one(world, "gcs_server")
    _start_cluster_again(world)


def _head(world: World) -> None:
    """All processes of the head are gone."""
    head = [process for process in world.look() if " start --head " in title_of(process)]
    for process in head:
        _signal([*process.children(recursive=True), process], signal.SIGKILL)
    _start_cluster_again(world)


def _start_cluster_again(world: World) -> None:
    """Without a GCS in Redis a cluster is lost: wait for the driver's end, and start another one."""
    assert world.driver is not None
    began = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        world.driver.wait(NO_GCS_S)
    seconds = time.monotonic() - began
    if world.driver.poll() is None:
        world.problems.append(f"without a GCS the driver has not ended after {NO_GCS_S:.0f} s")
        world.driver.send_signal(signal.SIGABRT)  # faulthandler shows where it waits
        world.driver.wait(10)
    print(f"        the driver ended {seconds:.0f} s later: exit code {world.driver.returncode}", flush=True)
    world.stop_cluster()
    world.start_cluster()
    world.keep_going()


FAULTS: dict[str, Callable[[World], None]] = {
    "worker": _worker,
    "mlflow": _mlflow,
    "driver": _driver,
    "conductor": _conductor,
    "storage": _storage,
    "node": _node,
    "postgres": _postgres,
    "disk": _disk,
    "gcs": _gcs,
    "head": _head,
    "partition": _partition,
}
ON_CLUSTER = ("node", "gcs", "head", "partition")


def possible(world: World) -> list[str]:
    """Return the faults that this world can have."""
    return [
        kind
        for kind in FAULTS
        if (kind != "postgres" or world.database is not None)
        and (kind != "disk" or world.small_disk)
        and (kind not in ON_CLUSTER or world.cluster is not None)
    ]


def _add_node(world: World, name: str) -> None:
    assert world.cluster is not None
    world.cluster.add_node(next(other for other in _NODES if other != name))


def _kill_one(world: World, title: str) -> None:
    """Kill the youngest process with this word in its title; wait for one that is about to start."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = [process for process in world.look() if title in title_of(process)]
        if found:
            _signal([max(found, key=lambda process: process.pid)], signal.SIGKILL)
            return
        world.watch(0.5)
    world.problems.append(f"there was no {title} to kill for 30 s")


def _signal(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
