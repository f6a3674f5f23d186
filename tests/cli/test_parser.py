from __future__ import annotations

import argparse
import contextlib
import os
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dmltune.cli import main, parser_of
from dmltune.cli.experiment_choice import space_name
from dmltune.cli.parser import command_line, duration, overrides_of, places_of
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


@pytest.mark.parametrize(
    "command",
    [
        "search glyphs-ccp loss.neg_margin=0.6 'batch={size: 32}' --seed 7 --data-root '/my data'"
        " --store runs --trials 6 --time 90m --name n --workers 2 --concurrent 1"
        " --address head:6379 --isolation trial",
        "search a=1 b=2 --data './my photos' --cache none --trials 4 --time 0.5s",
        "train glyphs-ccp max_steps=3 --seed 0 --name n --workers 2",
        "check demo max_steps=3 --top 2 --repeats 5 --folds 2 --fair-baseline --name c --workers 2",
        "submit jobs/x.yaml --address http://head:1 --store /runs",
        "reproduce 3.1 max_steps=100 --run --rows A,B --data CUB --repeats 1 --name quick",
    ],
)
def test_a_parsed_command_is_made_again_with_every_option_that_was_given(command: str) -> None:
    words = shlex.split(command)
    args = parser_of(words[0]).parse(words[1:])
    remade = shlex.split(command_line(args))
    assert remade[:2] == ["dmltune", words[0]]
    assert sorted(remade[2:]) == sorted(
        words[1:] if "./my photos" not in words else [word.removeprefix("./") for word in words[1:]]
    )
    assert vars(parser_of(words[0]).parse(remade[2:])) | {"parser": None} == vars(args) | {"parser": None}


def test_defaults_and_what_is_for_one_call_are_left_out_and_changes_are_made() -> None:
    words = ["glyphs-ccp", "--trials", "3", "--workers", "1", "-v", "-f", "json", "--dry-run"]
    args = parser_of("search").parse(words)
    assert command_line(args) == "dmltune search glyphs-ccp --trials 3"
    assert command_line(args, trials=6, name="n") == "dmltune search glyphs-ccp --trials 6 --name n"
    assert places_of(args) == ""
    assert places_of(parser_of("evaluate").parse(["x", "--store", "a b"])) == " --store 'a b'"


def test_a_file_is_called_by_its_stem() -> None:
    assert space_name("spaces/mine.yaml") == "mine"
    assert space_name("glyphs-ccp") == "glyphs-ccp"


def test_the_cache_that_is_asked_for_is_told_to_every_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DMLTUNE_IMAGE_CACHE", "disk")
    assert main(["search", "glyphs-ccp", "--dry-run", "--cache", "none", "data.classes=60"]) == 0
    assert os.environ["DMLTUNE_IMAGE_CACHE"] == "none"
    assert main(["search", "glyphs-ccp", "--dry-run", "--cache", "ram"]) == 2
    assert "--cache" in capsys.readouterr().err
