"""What a local Ray leaves out, and the program that sets a worker's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ray._private import ray_constants
from ray._private.node import Node

from dmltune.train import worker_setup
from dmltune.train.lean_ray import lean_ray

STARTS = ("start_monitor", "start_api_server", "start_log_monitor")


@pytest.mark.parametrize(("logs", "left_out"), [(False, STARTS), (True, STARTS[:2])])
def test_within_the_block_the_starts_of_unused_processes_do_nothing(
    logs: bool, left_out: tuple[str, ...]
) -> None:
    before = {name: vars(Node)[name] for name in STARTS}
    setup = ray_constants.SETUP_WORKER_FILENAME
    with pytest.raises(ZeroDivisionError), lean_ray(logs=logs):
        node = object.__new__(Node)  # any use of it would fail
        for name in left_out:
            assert getattr(node, name)(include_dashboard=False) is None
        assert all(vars(Node)[name] is before[name] for name in set(STARTS) - set(left_out))
        assert Path(ray_constants.SETUP_WORKER_FILENAME) == Path(worker_setup.__file__)
        _ = 1 / 0
    assert {name: vars(Node)[name] for name in STARTS} == before
    assert setup == ray_constants.SETUP_WORKER_FILENAME == "setup_worker.py"


def test_a_worker_gets_its_variables_and_its_own_arguments(tmp_path: Path) -> None:
    worker = tmp_path / "default_worker.py"
    worker.write_text(
        "import json, os, sys\nprint(json.dumps([sys.argv[1:], {k: os.environ[k] for k in 'ABC'}]))"
    )
    context = {"env_vars": {"A": "a b'", "B": "${A}-${NONE_SUCH}", "C": ""}, "py_executable": sys.executable}
    done = _run(worker, context | {"command_prefix": [], "java_jars": [], "override_worker_entrypoint": None})
    assert done == [["--node-id=x", "--empty="], {"A": "a b'", "B": "a b'-", "C": ""}]


def test_an_environment_of_more_than_variables_is_left_to_ray_s_own_program(tmp_path: Path) -> None:
    (tmp_path / "setup_worker.py").write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))")
    context = {"env_vars": {"A": "1"}, "py_executable": "/opt/other/python"}
    words = _run(tmp_path / "default_worker.py", context)
    assert words[0] == str(tmp_path / "default_worker.py")
    assert f"--serialized-runtime-env-context={json.dumps(context)}" in words
    assert "--language=PYTHON" in words


def _run(worker: Path, context: dict[str, object]) -> list[object]:
    """Start the program as a raylet does, and return what the worker prints."""
    words = [str(worker), "--node-id=x", "--empty="]
    words += [f"--serialized-runtime-env-context={json.dumps(context)}", "--language=PYTHON"]
    done = subprocess.run(
        [sys.executable, worker_setup.__file__, *words],
        capture_output=True, text=True, timeout=60, check=True, env=os.environ | {"A": "old"},
    )  # fmt: skip
    found: list[object] = json.loads(done.stdout)
    return found
