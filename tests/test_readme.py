"""Every command that README.md shows exists, with these options, these spaces and these files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dmltune.cli import parser_of
from dmltune.experiment import load_experiment, load_job

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def commands(program: str) -> list[str]:
    """Indented lines and `quoted` words that begin with the program; comments are cut off."""
    indented = re.findall(rf"^    ({program} .*)$", TEXT, flags=re.MULTILINE)
    quoted = re.findall(rf"`({program} [^`]+)`", TEXT)
    return sorted({line.partition("  #")[0].strip() for line in [*indented, *quoted]})


@pytest.mark.parametrize("line", commands("dmltune"))
def test_a_dmltune_command_parses_and_means_something_that_is_there(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    _, name, *words = shlex.split(line)
    args = parser_of(name).parse(words)
    if name in ("search", "train") and args.space not in ("mine", None):
        experiment = load_experiment(args.space, args.overrides)
        assert name == "train" or experiment.searchable
    if name == "submit":
        load_experiment(load_job(args.job).space)


@pytest.mark.parametrize("line", commands("make"))
def test_a_make_command_has_its_target(line: str) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(line.split()[1:]) <= set(targets)


def test_the_ten_commands_are_ten_and_the_two_are_two() -> None:
    block = TEXT.split("## Ten commands")[1].split("\n\n")[1]
    assert len(block.splitlines()) == 10
    assert {"make demo", "make test"} <= set(commands("make"))


def test_the_space_that_is_shown_can_be_searched(tmp_path: Path) -> None:
    block = TEXT.split("## A search space is one YAML file")[1].split("\n\n")[1]
    file = tmp_path / "mine.yaml"
    file.write_text("\n".join(line[4:] for line in block.splitlines()), encoding="utf-8")
    assert "loss.neg_margin" in load_experiment(file).search


def test_every_folder_and_picture_it_names_is_there() -> None:
    names = re.findall(r"^\| (`[^|]+`) \|", TEXT, flags=re.MULTILINE)
    folders = [folder for name in names for folder in re.findall(r"`([^`]+)`", name) if folder != "mlruns/"]
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", TEXT)
    assert pictures
    assert [path for path in [*folders, *pictures] if not (ROOT / path).exists()] == []
