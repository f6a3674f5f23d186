"""A Ray cluster of several nodes on this machine, on loopback; a node may lack folders that others have."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

RAY = str(Path(sys.executable).with_name("ray"))
# `ray start` refuses a second node on loopback; the classes behind it do not
NODE = """
import signal, sys
from ray._private.node import Node
from ray._private.parameter import RayParams
address, cpus, store = sys.argv[1:]
parameters = RayParams(
    gcs_address=address, node_ip_address="127.0.0.1", num_cpus=int(cpus), object_store_memory=int(store),
    min_worker_port=0, max_worker_port=0, include_log_monitor=False, dashboard_agent_listen_port=0,
)
node = Node(parameters, head=False, shutdown_at_exit=True)
signal.pause()
"""
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # every socket on loopback
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}
STORE_BYTES = 128 * 2**20
UNSHARE = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "--map-root-user"]


def can_hide_folders() -> bool:
    """Whether this machine gives a process mounts of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@dataclass
class Cluster:
    """The address of the head, and its nodes by name."""

    address: str
    folder: Path
    head: subprocess.Popen[bytes]
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # Ray's, by name

    def add_node(self, name: str, cpus: int = 1, hidden: Sequence[Path] = (), **environment: str) -> None:
        """Start a node; an empty folder stands in the place of each of the `hidden` ones."""
        mounts = " && ".join(f"mount -t tmpfs -o size=64m none {shlex.quote(str(each))}" for each in hidden)
        command = shlex.join([sys.executable, "-c", NODE, self.address, str(cpus), str(STORE_BYTES)])
        whole = [*UNSHARE, "sh", "-c", f"{mounts} && exec {command}"] if hidden else ["sh", "-c", command]
        before = self.alive()
        self.nodes[name] = _start(whole, self.folder / f"{name}.log", environment)
        deadline = time.monotonic() + 60
        while not (new := self.alive() - before):
            ended = self.nodes[name].poll() is not None or time.monotonic() > deadline
            assert not ended, (self.folder / f"{name}.log").read_text()
            time.sleep(0.2)
        (self.ids[name],) = new

    def kill_node(self, name: str) -> None:
        """Kill all processes of a node at once."""
        _kill(self.nodes.pop(name))

    def nodes_with(self, title: str) -> list[str]:
        """Return the names of the nodes that run a process with this word in its title."""
        found = []
        for name, node in self.nodes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                processes = psutil.Process(node.pid).children(recursive=True)
                if any(title in " ".join(each.cmdline()) for each in processes):
                    found.append(name)
        return found

    def kill_gcs(self) -> None:
        """Kill the head's GCS; its other processes stay."""
        children = psutil.Process(self.head.pid).children(recursive=True)
        (gcs,) = [each for each in children if each.name() == "gcs_server"]
        gcs.kill()

    def preempt_node(self, name: str, seconds: float) -> None:
        """Give notice that a node ends after so many seconds, as a cloud does; it takes no more work."""
        from ray._raylet import GcsClient
        from ray.core.generated import autoscaler_pb2

        reason = autoscaler_pb2.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION
        deadline_ms = int((time.time() + seconds) * 1000)
        accepted, why = GcsClient(address=self.address).drain_node(
            self.ids[name], reason, "spot machine", deadline_ms
        )
        assert accepted, why

    def alive(self) -> set[str]:
        """Return Ray's ids of the nodes that live."""
        from ray._private.state import GlobalState
        from ray._raylet import GcsClientOptions

        state = GlobalState()
        state._initialize_global_state(
            GcsClientOptions.create(
                self.address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
            )
        )
        try:
            return {node["NodeID"] for node in state.node_table() if node["Alive"]}
        finally:
            state.disconnect()


_SMALL = {"--object-store-memory": str(STORE_BYTES), "--include-log-monitor": "false"}


@contextlib.contextmanager
def running_cluster(cpus: int = 0) -> Iterator[Cluster]:
    """Run a head; the block adds nodes, which end with it."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="dmlc-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        options = {
            "--node-ip-address": "127.0.0.1",
            "--port": str(port),
            "--num-cpus": str(cpus),
            "--include-dashboard": "false",
            "--dashboard-port": str(free_port()),
            "--ray-client-server-port": str(free_port()),
            "--temp-dir": name,
        }
        command = [RAY, "start", "--head", "--block", "--disable-usage-stats", *_flat(options | _SMALL)]
        head = _start(command, folder / "head.log", {})
        cluster = Cluster(f"127.0.0.1:{port}", folder, head)
        try:
            _wait_for(port)
            while not cluster.alive():
                time.sleep(0.1)
            yield cluster
        finally:
            for process in [*cluster.nodes.values(), head]:
                _kill(process)


def _start(command: Sequence[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            env=os.environ | ENVIRONMENT | environment,
            start_new_session=True,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
    process.wait(timeout=30)


def _flat(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in option]


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Ray's head did not start")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
