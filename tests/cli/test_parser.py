from __future__ import annotations

import argparse
import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dmltune.cli import main, parser_of
from dmltune.cli.parser import duration, overrides_of
from dmltune.cli.search import again, name_of, places
from dmltune.errors import UserError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), ("0.5h", 1800)]
)
def test_a_time_is_numbers_with_units(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@given(some.text(max_size=8))
def test_what_is_not_a_time_is_refused_and_never_becomes_another_error(text: str) -> None:
    seconds = None
    with contextlib.suppress(argparse.ArgumentTypeError):
        seconds = duration(text)
    assert seconds is None or seconds > 0


def test_overrides_may_stand_anywhere_between_options() -> None:
    words = ["a=1", "--trials", "3", "b=2", "--name", "x", "c={d: 1, e: [2]}", "--seed", "7"]
    args = parser_of("search").parse(["glyphs-ccp", *words])
    assert args.space == "glyphs-ccp"
    assert args.trials == 3
    assert overrides_of(args) == ["a=1", "b=2", "c={d: 1, e: [2]}", "seed=7"]


def test_options_are_not_abbreviated() -> None:
    """A script that says --work would break with the first new option that begins alike."""
    with pytest.raises(UserError, match="--workers"):
        parser_of("search").parse(["glyphs-ccp", "--worker", "2"])


def test_the_command_that_goes_on_carries_everything_but_the_limits() -> None:
    words = [
        "glyphs-ccp",
        "loss.neg_margin=0.6",
        "batch={size: 32}",
        "--trials",
        "3",
        "--time",
        "1h",
        "--seed",
        "7",
    ]
    words += ["--workers", "2", "--data-root", "/my data", "--store", "runs"]
    args = parser_of("search").parse(words)
    assert again(args, "n") == (
        "dmltune search glyphs-ccp loss.neg_margin=0.6 'batch={size: 32}' seed=7 --name n --workers 2"
        " --data-root '/my data' --store runs"
    )
    assert places(parser_of("evaluate").parse(["demo"])) == ""


def test_a_file_is_called_by_its_stem() -> None:
    assert name_of("spaces/mine.yaml") == "mine"
    assert name_of("glyphs-ccp") == "glyphs-ccp"


def test_the_cache_that_is_asked_for_is_told_to_every_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DMLTUNE_IMAGE_CACHE", "disk")
    assert main(["search", "glyphs-ccp", "--dry-run", "--cache", "none", "data.classes=60"]) == 0
    assert os.environ["DMLTUNE_IMAGE_CACHE"] == "none"
    assert main(["search", "glyphs-ccp", "--dry-run", "--cache", "ram"]) == 2
    assert "--cache" in capsys.readouterr().err
