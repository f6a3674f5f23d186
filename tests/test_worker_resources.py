"""What a worker asks for, and how many groups of them a session plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.resources import Resources
from dmltune.train.ray_session import RaySession, plan_resources
from dmltune.worker_resources import WorkerResources, custom_resource, memory_bytes, room

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8GiB", 8 * GIB),
        ("8Gi", 8 * GIB),
        ("0.5GiB", GIB // 2),
        ("16GB", 16 * 10**9),
        ("512", 512),
        ("1 MiB", 2**20),
    ],
)
def test_amounts_of_memory_are_those_of_kubernetes(text: str, amount: int) -> None:
    assert memory_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "8 apples", "-1GiB", "0", "1e3GiB", "9" * 50, "8iB", "nan"])
def test_other_amounts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        memory_bytes(text)


def test_a_custom_resource_may_have_a_colon_and_not_a_name_of_ray_s() -> None:
    assert custom_resource("accelerator_type:A100=0.001") == ("accelerator_type:A100", 0.001)
    for text in ("x", "=1", "x=0", "x=nan", "x=many"):
        with pytest.raises(ValueError):
            custom_resource(text)
    with pytest.raises(UserError, match="a name of its own"):
        WorkerResources(custom={"CPU": 1.0})


def test_fractions_that_floats_cannot_hold_are_counted_right() -> None:
    assert room([{"GPU": 0.3}], {"GPU": 0.1}) == 3
    assert room([{"CPU": 1.0}], {"CPU": 0.1}) == 10


def session(*nodes: dict[str, float], grows: bool = False) -> RaySession:
    cpus, gpus = (int(sum(node.get(name, 0) for node in nodes)) for name in ("CPU", "GPU"))
    return RaySession(False, "", Path(), cpus, gpus, nodes, grows)


def test_as_many_groups_as_the_nodes_hold_and_a_worker_spans_no_two() -> None:
    three = Resources(per_worker=WorkerResources(cpus=3))
    plan = plan_resources(session({"CPU": 4.0}, {"CPU": 8.0}), three)
    assert (plan.concurrent, plan.request, plan.use_gpu) == (3, {"CPU": 3.0}, False)
    half = Resources(per_worker=WorkerResources(cpus=2, gpus=0.5, memory=GIB, custom={"licence": 1.0}))
    plan = plan_resources(session({"CPU": 8.0, "GPU": 2.0, "memory": 3.5 * GIB, "licence": 9.0}), half)
    assert plan.concurrent == 3, "memory is the tightest"
    assert plan.request == {"CPU": 2.0, "GPU": 0.5, "memory": float(GIB), "licence": 1.0}
    assert plan.use_gpu
    assert plan_resources(session({"CPU": 4.0, "GPU": 2.0}), Resources()).request == {"GPU": 1.0}
    no_gpu = Resources(per_worker=WorkerResources(gpus=0))
    assert plan_resources(session({"CPU": 4.0, "GPU": 2.0}), no_gpu).request == {"CPU": 1.0}


def test_what_has_no_room_is_one_line_unless_the_cluster_grows() -> None:
    wanted = Resources(workers=2, concurrent=2, per_worker=WorkerResources(cpus=2))
    with pytest.raises(UserError) as caught:
        plan_resources(session({"CPU": 4.0}), wanted)
    assert str(caught.value) == (
        "2 trials at a time × 2 workers need 4 times 2 CPUs; there is room for 2 such workers. "
        "Use --concurrent 1 or --workers 1."
    )
    assert plan_resources(session({"CPU": 0.0}, grows=True), wanted).concurrent == 2
    with pytest.raises(UserError, match="Ask for less of each worker"):
        plan_resources(session({"CPU": 1.0}), Resources(per_worker=WorkerResources(memory=GIB)))


def test_ranks_of_one_trial_cannot_share_a_gpu() -> None:
    with pytest.raises(UserError, match="cannot share a GPU"):
        Resources(workers=2, per_worker=WorkerResources(gpus=0.5))
    with pytest.raises(UserError, match="must be a whole number"):
        WorkerResources(gpus=1.5)
