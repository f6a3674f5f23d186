"""How the files of workers reach the store: found out when a worker pool starts on a cluster.

shared    a node that reads the driver's probe in the store's folder writes there itself; nothing is copied
address   the store is an address: workers write to it
ray       otherwise files travel through Ray to the driver's node, to a receiver

The route travels with every order, and a worker looks for the probe itself: nodes may come later, and some
may have the folder while others have not.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dmltune.errors import UserError
from dmltune.storage.receiver import RayTransport, sees, start_receiver
from dmltune.storage.transport import ADDRESS_PATIENCE_S, PATIENCE_S, FileTransport

RECEIVER = "receiver"
PROBE_S = 60.0  # how long a node may take to answer
ATTEMPTS = 3


@dataclass(frozen=True)
class Route:
    """`root` is the driver's folder of searches. Names of files are relative to it."""

    root: str
    probe: str = ""
    token: str = ""
    namespace: str = ""  # of the receiver
    address: str = ""  # of the store's searches
    patience_s: float = PATIENCE_S

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def shared_here(self) -> bool:
        """Whether this process may read and write the driver's folder itself."""
        return not self.address and sees(self.probe, self.token)

    def transport(self) -> FileTransport:
        """Return the way from this process to the driver's files."""
        if self.address:
            from dmltune.storage.addresses import AddressTransport

            return AddressTransport(self.address)
        import ray

        return RayTransport(ray.get_actor(RECEIVER, namespace=self.namespace))

    def name_of(self, folder: str) -> str:
        """Return the name of one of the driver's folders."""
        return Path(folder).relative_to(self.root).as_posix()


@contextlib.contextmanager
def find_route(searches: Path, address: str, namespace: str, log: Callable[[str], None]) -> Iterator[Route]:
    """Find the route of this cluster, and say it in one line; the probe is removed at the end."""
    if address:
        _require_address_everywhere(address)
        log(f"checkpoints and models go to {address}")
        yield Route(str(searches), address=address, patience_s=ADDRESS_PATIENCE_S)
        return
    searches.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    probe = searches / f".probe-{secrets.token_hex(8)}"
    probe.write_text(token, encoding="ascii")
    probe.chmod(0o644)  # workers may be another user
    try:
        route = Route(str(searches), str(probe), token, namespace)
        receiver = start_receiver(RECEIVER, namespace, _this_node(), searches)
        log(_describe(route, receiver))
        yield route  # Ray ends the receiver when nobody holds its handle any more
    finally:
        probe.unlink(missing_ok=True)


def _describe(route: Route, receiver: Any) -> str:
    """Return in one line which nodes share the folder; a UserError when no file can come here."""
    import ray

    here = _this_node()
    others = [node for node in _alive_nodes() if node != here]
    looks = {node: _on_node(node, sees, route.probe, route.token) for node in others}
    try:
        at_home = ray.get(receiver.sees.remote(route.probe, route.token), timeout=PROBE_S)
    except (ray.exceptions.RayError, TimeoutError):
        at_home = False
    if not at_home:
        raise UserError(
            f"the nodes of this cluster cannot reach {route.root}, and this process does not run on one of "
            "them, so their models could not be brought here. Use dmltune submit, or --store s3://BUCKET/PATH."
        )
    apart = [node for node, answer in _answers(looks).items() if answer is not True]
    if apart:
        count = f"{len(apart)} of {len(others) + 1} nodes do not share {route.root}"
        return f"{count}: their checkpoints and models come here through Ray"
    nodes = f"all {len(others) + 1} nodes share" if others else "this node has"
    return f"{nodes} {route.root}: checkpoints and models are written there directly"


def _require_address_everywhere(address: str) -> None:
    """Raise a UserError when a node that may train cannot write to the address: its models would be lost."""
    looks = {node: _on_node(node, _reaches, address) for node in _alive_nodes(training=True)}
    for node, answer in _answers(looks).items():
        if answer:
            raise UserError(f"node {node[:8]} of the cluster cannot use the store: {answer}")


def _reaches(address: str) -> str:
    """Return why this process cannot use the address, or nothing."""
    from dmltune.storage.addresses import AddressTransport

    problem = ""
    for _ in range(ATTEMPTS):  # a busy machine may miss the short time-outs once
        try:
            AddressTransport(address).require_access()
        except UserError as error:
            problem = str(error)
        else:
            return ""
    return problem


def _on_node(node: str, function: Callable[..., Any], *arguments: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options = {
        "num_cpus": 0,
        "max_retries": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
    }
    return ray.remote(function).options(**options).remote(*arguments)


def _answers(looks: dict[str, Any]) -> dict[str, Any]:
    """Return what each node answered; a node that is lost or too slow has no answer."""
    import ray

    if not looks:
        return {}
    ready, _ = ray.wait(list(looks.values()), num_returns=len(looks), timeout=PROBE_S)
    answers: dict[str, Any] = {}
    for node, look in looks.items():
        answers[node] = None
        if look in ready:
            with contextlib.suppress(ray.exceptions.RayError):
                answers[node] = ray.get(look)
    return answers


def _this_node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _alive_nodes(training: bool = False) -> list[str]:
    """Return the nodes; with `training` those that have something to train with, unlike many heads."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = [node for node in nodes if node["Alive"]]
    able = [node for node in alive if any(node["Resources"].get(kind) for kind in ("CPU", "GPU"))]
    return [str(node["NodeID"]) for node in (able if training else alive)]
