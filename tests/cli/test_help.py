from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata

import pytest

from dmltune.cli import COMMANDS, command, overview, parser_of

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_help_and_every_parser_load_neither_torch_nor_ray_nor_mlflow() -> None:
    """That is what keeps `dmltune --help` at a tenth of a second."""
    code = (
        "import sys; from dmltune.cli import COMMANDS, overview, parser_of; overview();"
        "[parser_of(name).format_help() for name in COMMANDS];"
        "heavy = ('torch', 'ray', 'mlflow', 'optuna', 'numpy', 'pydantic');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_spaces_are_listed_without_torch_ray_and_mlflow() -> None:
    code = (
        "import sys; from dmltune.cli import main; main(['spaces']);"
        "print([name for name in ('torch', 'ray', 'mlflow', 'optuna') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_words_at_all_show_every_command(dmltune: Run) -> None:
    done = dmltune()
    assert done.returncode == 0
    assert all(f"  {name}" in done.stdout for name in COMMANDS)
    assert done.stdout.strip() == overview()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples_that_parse(name: str, dmltune: Run) -> None:
    done = dmltune(name, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "--format" in done.stdout
    examples = [line.strip() for line in command(name).EXAMPLES.splitlines() if line.strip()]
    assert len(examples) >= 2
    for example in examples:
        words = shlex.split(example.split("   ")[0])
        assert words[:2] == ["dmltune", name]
        parser_of(name).parse(words[2:])


def test_the_version_is_the_packages(dmltune: Run) -> None:
    assert dmltune("--version").stdout.strip() == f"dmltune {metadata.version('dmltune')}"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    line = f"{shlex.quote(sys.executable)} -m dmltune spaces -f json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "["
    assert done.stderr == ""
