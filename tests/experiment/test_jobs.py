"""Jobs: what a cluster is asked to do, and how a wrong file is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment, load_job


@pytest.mark.parametrize("name", ["glyphs-ccp", "cub-ccp", "kubernetes", "kubernetes-shared-folder"])
def test_every_shipped_job_names_a_space_that_loads(name: str) -> None:
    job = load_job(name)
    assert load_experiment(job.space, job.overrides).searchable
    assert job.name
    assert job.trials
    assert job.workers >= 1


def test_a_job_can_be_given_as_a_path(write: Callable[..., Path]) -> None:
    file = write(
        "mine", "space: cub-ccp\noverrides: max_steps=300\ntime: 1h30m\nruntime_env: {pip: [x]}\n", "jobs"
    )
    job = load_job(file)
    assert (job.space, job.overrides, job.time) == ("cub-ccp", ["max_steps=300"], "1h30m")
    assert job.runtime_env == {"pip": ["x"]}
    assert load_job("mine") == load_job("jobs/mine.yaml") == job
    assert (job.name, job.trials, job.concurrent, job.data_root, job.store) == (None, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\n", "jobs/mine.yaml: space is missing. Add 'space: …'."),
        ("space: x\nspase: y\n", "jobs/mine.yaml:2: unknown key 'spase'; did you mean 'space'?"),
        ("space: 3\n", "jobs/mine.yaml:1: space must be a text; got 3. Quote it: '3'."),
        ("space: ''\n", "jobs/mine.yaml:1: space must not be empty."),
        ("space: x\ntrials: 0\n", "jobs/mine.yaml:2: trials must be at least 1; got 0."),
        (
            "space: x\ntrials: '3'\n",
            "jobs/mine.yaml:2: trials must be a whole number; got the text '3'. Write 3",
        ),
        ("space: x\nworkers: true\n", "jobs/mine.yaml:2: workers must be a whole number; got true."),
        (
            "space: x\ntime: 90\n",
            "jobs/mine.yaml:2: time must be a time such as 90s, 30m or 1h30m; got 90. Write '90s'",
        ),
        ("space: x\ntime: soon\n", "jobs/mine.yaml:2: time must be a time such as 90s"),
        ("space: x\ntime: 0s\n", "jobs/mine.yaml:2: time must be a time such as 90s"),
        ("space: x\nruntime_env: [a]\n", "jobs/mine.yaml:2: runtime_env must be a mapping"),
        (
            "space: x\noverrides: {a: 1}\n",
            "jobs/mine.yaml:2: overrides must be a list; got the mapping {a: 1}.",
        ),
        ("space: x\noverrides:\n  - a=1\n  - b\n", "jobs/mine.yaml:4: overrides.1: an override is key=value"),
        ("space: x\noverrides: [3]\n", "jobs/mine.yaml:2: overrides.0 must be a text; got 3."),
        ("space: x\nstore: ''\n", "jobs/mine.yaml:2: store must not be empty."),
        ("space: x\ndata: /p\n", "jobs/mine.yaml:2: data proposes its own space; leave out space or data."),
        ("space: x\ncost: 3\n", "jobs/mine.yaml:2: cost must be a time such as 90s"),
        (
            "space: x\nresources: {cpu: 1}\n",
            "jobs/mine.yaml:2: unknown key 'cpu' in resources; did you mean 'cpus'?",
        ),
        (
            "space: x\nresources: {memory: lots}\n",
            "jobs/mine.yaml:2: resources.memory: write an amount such as 8GiB",
        ),
        (
            "space: x\nworkers: 2\nresources: {gpus: 0.5}\n",
            "jobs/mine.yaml:3: resources: workers of one trial",
        ),
        ("space: x\nretries: 21\n", "jobs/mine.yaml:2: retries must be at most 20; got 21."),
        ("space: x\nstudies: postgresql://u:p77@h/d\n", "jobs/mine.yaml:2: studies must hold no password"),
        ("space: x\nkuberay: {}\n", "jobs/mine.yaml:2: kuberay needs an image that has dmltune."),
        ("space: x\nimage: i\npip: [y]\n", "jobs/mine.yaml:3: an image brings its own packages"),
        (
            "space: x\nimage: i\nkuberay: {nodes: 1, nodes_at_least: 2}\n",
            "jobs/mine.yaml:3: kuberay.nodes_at_least is at most kuberay.nodes, 1; got 2.",
        ),
        (
            "space: x\nimage: i\nkuberay: {claim: My_Claim}\n",
            "jobs/mine.yaml:3: kuberay.claim: a name in Kubernetes",
        ),
        ("- x\n", "jobs/mine.yaml:1: the file must hold 'key: value' lines; got a list."),
    ],
)
def test_a_wrong_job_is_told_with_its_line(write: Callable[..., Path], text: str, expected: str) -> None:
    write("mine", text, "jobs")
    with pytest.raises(UserError) as caught:
        load_job("mine")
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_an_unknown_job_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UserError) as caught:
        load_job("glyphs-cpp")
    assert str(caught.value) == "no job 'glyphs-cpp'; did you mean 'glyphs-ccp'?"
