"""What leaves the program: one line per mistake, log records with -v, library errors with a remedy."""

from __future__ import annotations

import contextlib
import io
import logging
import sqlite3
import warnings

import pytest

from dmltune import cli
from dmltune.cli import boundary, main
from dmltune.errors import NOTE, UserError


def run(code: object, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(cli, "_run", code)
    return main(arguments)


def test_library_errors_are_one_line_and_have_a_traceback_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = {
        "Check --store": sqlite3.DatabaseError("database disk image is malformed\nsecond line"),
        "Check its path": PermissionError(13, "Permission denied", "/x/\x1b[31m"),
        "Write the whole path": RuntimeError("Could not determine home directory."),
        "Write it as UTF-8": UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
    }
    for expected, error in errors.items():

        def fail(arguments: list[str], error: Exception = error) -> int:
            raise error

        for arguments in ((), ("-v",)):
            assert run(fail, arguments, monkeypatch) == 2
            lines = capsys.readouterr().err.splitlines()
            assert expected in lines[-1]
            assert "\x1b" not in lines[-1]
            assert (len(lines) > 1) == bool(arguments)


def test_a_process_that_ray_lost_is_one_line_but_a_mistake_inside_a_task_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.exceptions import ActorDiedError, RayTaskError

    def lose(arguments: list[str]) -> int:
        raise ActorDiedError()

    def mistake(arguments: list[str]) -> int:
        raise RayTaskError("task", "traceback", KeyError("a mistake of ours")).as_instanceof_cause()

    assert run(lose, (), monkeypatch) == 1
    error = capsys.readouterr().err
    assert error.startswith("Ray lost a process of this command (ActorDiedError)")
    assert len(error.splitlines()) == 1
    with pytest.raises(KeyError):
        run(mistake, (), monkeypatch)


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: list[str]) -> int:
        raise KeyError("a mistake of ours")

    with pytest.raises(KeyError):
        run(fail, (), monkeypatch)


def test_a_message_is_one_short_line_without_control_characters() -> None:
    assert boundary.message_line("a\nb \x1b[31m\udcff") == "a b \\x1b[31m\\udcff"
    assert boundary.message_line("got " + "x" * 100_000) == f"got {'x' * 120}…(100,000 characters)"
    long = boundary.message_line("rule " + "[ " * 60_000 + "remedy")
    assert len(long) < 1000
    assert long.startswith("rule")
    assert long.endswith("remedy")


@pytest.mark.filterwarnings("always")
def test_records_of_dmltune_are_shown_by_level_and_those_of_libraries_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def log(arguments: list[str]) -> int:
        logging.getLogger("dmltune.data").log(NOTE, "takes a while")
        for level in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger("dmltune.data").log(level, "%s\nours", logging.getLevelName(level))
        logging.getLogger("PIL").warning("theirs")
        warnings.warn("a library's warning", stacklevel=1)
        return 0

    shown = {}
    for arguments in ((), ("-v",), ("-vv",)):
        assert run(log, arguments, monkeypatch) == 0
        shown[len("".join(arguments))] = capsys.readouterr().err.splitlines()
    assert shown[0] == ["takes a while", "warning: WARNING ours"]
    more = ["warning: WARNING ours", "warning: theirs", "warning: UserWarning: a library's warning"]
    assert shown[2] == ["takes a while", "info: INFO ours", *more]
    assert shown[3] == ["takes a while", "debug: DEBUG ours", "info: INFO ours", *more]
    assert not logging.getLogger().handlers or all(
        not isinstance(handler.formatter, boundary._OneLine) for handler in logging.getLogger().handlers
    )


def test_records_go_to_what_stderr_is_when_they_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A live table replaces sys.stderr, to move down below each line."""
    table = io.StringIO()

    def log(arguments: list[str]) -> int:
        with contextlib.redirect_stderr(table):
            logging.getLogger("dmltune.train").log(NOTE, "training a backbone")
        return 0

    assert run(log, (), monkeypatch) == 0
    assert table.getvalue() == "training a backbone\n"
    assert not capsys.readouterr().err


def test_every_command_takes_v(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        assert "--verbose" in cli.parser_of(name).format_help()
    assert boundary.verbosity(["x", "-v", "--verbose", "-vv", "--version"]) == 4


def test_a_name_is_refused_when_it_is_parsed() -> None:
    for command in ("search", "train", "check", "reproduce"):
        with pytest.raises(UserError, match="a name must be"):
            cli.parser_of(command).parse(["x", "--name", "a/b"])
