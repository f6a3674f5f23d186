"""Whether a job fits a cluster, before anything is uploaded."""

from __future__ import annotations

import pytest

from dmltune.cli.submit import judge
from dmltune.cluster.dashboard import Cluster, autoscales
from dmltune.cluster.fitting import numbers, shortage, trials_at_a_time
from dmltune.experiment import Job

GIB = 2**30
SMALL = {"CPU": 4.0, "memory": 8.0 * GIB}
GPU = {"CPU": 8.0, "GPU": 1.0, "memory": 32.0 * GIB, "licence": 1.0}


def cluster(*nodes: dict[str, float], grows: bool | None = False, ray: str = "2.60.0") -> Cluster:
    return Cluster(ray, "3.11.7", nodes, grows)


def job(**keys: object) -> Job:
    return Job.model_validate({"space": "s"} | keys)


def test_workers_are_counted_by_node_and_not_by_sum() -> None:
    there = cluster(SMALL, SMALL)
    assert shortage(job(workers=4, resources={"cpus": 2}), there) == ""
    assert shortage(job(workers=2, resources={"cpus": 3}), there) == ""
    assert shortage(job(workers=3, resources={"cpus": 3}), there).endswith(
        "the cluster has 8 CPUs in all, 4 CPUs on the largest node."
    )
    assert trials_at_a_time(job(resources={"cpus": 3}), there) == 2
    assert trials_at_a_time(job(resources={"cpus": 0.5}), there) == 16


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"gpus": 1}, "the cluster has no node with GPU."),
        ({"memory": "16GiB"}, "8 GiB memory on the largest node."),
        ({"custom": {"licence": 1}}, "no node with licence."),
        ({"cpus": 5}, "the job needs 5 CPUs; the cluster has 8 CPUs in all, 4 CPUs on the largest node."),
    ],
)
def test_what_is_lacking_is_named_with_what_is_there(resources: dict[str, object], says: str) -> None:
    assert shortage(job(resources=resources), cluster(SMALL, SMALL)).endswith(says)


def test_half_a_gpu_lets_two_trials_run_on_one() -> None:
    assert trials_at_a_time(job(resources={"gpus": 0.5}), cluster(GPU)) == 2
    assert trials_at_a_time(job(), cluster(GPU)) == 1, "a worker gets a whole GPU unless the job says less"


def test_a_cluster_without_all_of_it_on_one_node_is_refused() -> None:
    apart = cluster({"CPU": 8.0, "memory": GIB}, {"CPU": 1.0, "memory": 32.0 * GIB})
    assert "nodes with all of it together for 0 of them" in shortage(
        job(resources={"cpus": 4, "memory": "8GiB"}), apart
    )


def test_a_cluster_that_may_grow_is_not_refused_and_the_job_is_told_to_wait() -> None:
    for grows, words in ((True, "Its autoscaler may add nodes"), (None, "if it has one")):
        problem, notes = judge(job(resources={"cpus": 16}), cluster(grows=grows))
        assert problem == ""
        assert words in notes[-1]
        assert notes[-1].endswith("until then the job waits.")
    problem, _ = judge(job(resources={"cpus": 16}), cluster(SMALL))
    assert problem == (
        "the job needs 16 CPUs; the cluster has 4 CPUs in all. Lower resources, or add a node."
    )


def test_versions_that_cannot_work_are_refused_and_others_are_told() -> None:
    assert judge(job(), cluster(SMALL, ray="2.48.1"))[0].startswith(
        "the cluster runs Ray 2.48.1; dmltune needs"
    )
    old = Cluster("2.60.0", "3.9.20", (SMALL,), False)
    assert judge(job(), old)[0].startswith("the cluster runs Python 3.9.20; dmltune needs 3.11.4")
    newer = Cluster("2.61.3", "3.13.1", (SMALL,), False)
    problem, notes = judge(job(), newer)
    assert problem == ""
    assert notes[0].startswith("the cluster runs Ray 2.61.3 (here 2.60.0) and Python 3.13.1 (here ")
    assert numbers("2.61.0rc1") == (2, 61, 0)


def test_an_autoscaler_is_known_by_its_node_types() -> None:
    assert not autoscales(None)
    assert not autoscales({"6031ee": "node_6031ee"}), "ray start without a configuration"
    assert autoscales({"6031ee": "ray.head.default"})
