"""One thread a process (the tests share few cores), and nothing that talks to the outside."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from support.disk import never_wait_for_the_disk
from support.fork_server import ADDRESS, serving
from xdist.scheduler import LoadScopeScheduling

for variable, value in {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # Ray's 15 would let the other lane of tests take all the time
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a dozen processes for every server
    "NO_COLOR": "1",
    "MPLBACKEND": "agg",
}.items():
    os.environ.setdefault(variable, value)

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Told to end, the tests take down what they started.
signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=143))


never_wait_for_the_disk()
# A slow moment of the machine is no failure.
hypothesis.settings.register_profile("tests", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("tests")

TESTS = Path(__file__).parent
WITH_RAY = (  # lanes of about the same length; Ray's starts mostly wait
    (
        *("search/test_kills.py", "train/test_worker_pool.py", "search/test_two_people.py"),
        *("reproduce/test_table_runs.py", "train/test_memory_monitor.py", "search/test_full_disk.py"),
    ),
    (
        *("check/test_check.py", "test_extending.py", "test_old_store.py", "cli/test_six_commands.py"),
        *("storage/test_clusters.py", "storage/test_chaos.py"),
        *("storage/test_two_nodes.py",),
    ),
    (
        *("search/test_whole_search.py", "cli/test_submit.py", "reproduce/test_collage.py"),
        *("train/test_training.py", "test_packaging.py", "cli/test_search_own_data.py"),
        *("security/test_private_files.py", "security/test_passwords.py", "train/test_placement_groups.py"),
        *("train/test_worker_faults.py", "train/test_nodes.py"),
    ),
)
SLOW = ("storage/test_clusters.py", "storage/test_two_nodes.py", "search/test_full_disk.py")
SLOW += ("train/test_nodes.py", "train/test_worker_faults.py")
SLOW_TESTS = (
    "test_a_job_runs_on_the_cluster_with_servers_and_its_result_comes_back_as_json",
    "test_ctrl_c_leaves_the_job_alone_and_jobs_stop_leaves_a_search_that_resumes",
)
LONG = "test_every_space.py"  # begins right after the lanes, so that no process works on it alone at the end
CORPUS = "malformed/test_malformed.py"


@pytest.fixture(autouse=True)
def environment_of_a_command() -> Iterator[None]:
    """What a command that runs in this process tells its workers (--cache, --offline) ends with the test."""
    names = ("DMLTUNE_IMAGE_CACHE", "DMLTUNE_OFFLINE")
    before = {name: os.environ.get(name) for name in names}
    yield
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def pytest_configure(config: pytest.Config) -> None:
    """Start the server of commands; the processes of pytest-xdist inherit its address."""
    if ADDRESS not in os.environ:
        running = contextlib.ExitStack()
        running.enter_context(serving())
        config.add_cleanup(running.close)


class Lanes(LoadScopeScheduling):
    """Files that start Ray are three units, a process works off each; any other file is one of its own.

    The corpus of malformed input is a unit for each of its classes.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.removeprefix("tests/").partition("::")
        if file == CORPUS:
            return test.partition("/")[0]
        return next((f"ray-{lane}" for lane, files in enumerate(WITH_RAY) if file in files), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: the lanes with Ray, then the longest other file.

    `make slow` runs SLOW and SLOW_TESTS: minutes each on two cores.
    """
    if "mlflow" in sys.modules:  # tests that need it import it
        from support.mlflow_tables import copy_the_tables

        copy_the_tables()
    if not os.environ.get("DMLTUNE_SLOW"):
        for item in items:
            if item.path in {TESTS / file for file in SLOW} or item.name in SLOW_TESTS:
                item.add_marker(pytest.mark.skip(reason="takes minutes: make slow"))
    first = [*(file for lane in WITH_RAY for file in lane), LONG]
    place = {TESTS / file: number for number, file in enumerate(first)}
    items.sort(key=lambda item: place.get(item.path, len(place)))
