"""Give back what a controller that was killed held: Ray keeps its placement group until the driver ends."""

from __future__ import annotations

from typing import Any

import ray


def remove_placement_groups_of(actor: Any) -> int:
    """Remove the placement groups that this actor has made; return how many there were.

    Ray Train has a detached actor for this (PlacementGroupCleaner). It asks the dashboard, which need not
    run, and `exit_actor()` in its thread does not end its process: it stays on the head for ever.
    """
    maker: str = actor._actor_id.hex()
    if ray.util.client.ray.is_connected():  # type: ignore[no-untyped-call]  # no part of the cluster
        return int(ray.get(ray.remote(num_cpus=0)(_remove).remote(maker), timeout=60))
    return _remove(maker)


def _remove(maker: str) -> int:
    from ray._private.state import state
    from ray.core.generated import gcs_pb2
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    message: Any = gcs_pb2.PlacementGroupTableData  # type: ignore[attr-defined]
    table = map(message.FromString, state._connect_and_get_accessor().get_placement_group_table())
    held = [
        ray.PlacementGroupID(group.placement_group_id)
        for group in table
        if group.creator_actor_id.hex() == maker and group.state != message.REMOVED
    ]
    for group in held:
        remove_placement_group(PlacementGroup(group))
    return len(held)
