"""The words that a command line can go on with, for the shells' completion.

A person waits for it: no experiment, torch, MLflow or Optuna is imported. Parsers give commands and options,
folders and the store's databases give names.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import dmltune
from dmltune import tags
from dmltune.cli import COMMANDS, parser_of
from dmltune.cli.parser import Parser
from dmltune.errors import UserError
from dmltune.meanings import meanings

PLAIN = re.compile(r"[\w./:+@-][\w./:+@=-]*")  # words that no shell has to quote
COMPONENTS = {  # sections with a name, and the folders of its choices
    "loss": "core/losses",
    "references": "core/references",
    "pooling": "core/poolings",
    "transform": "core/transforms",
    "backbone": "core/backbones",
    "sampler": "search/samplers",
    "scheduler": "search/schedulers",
    "data": "data/catalog",
}
OF_SEARCHES = ("check", "best", "compare", "importance", "resume", "stop", "rm", "export-config", "ui")
BOTH_KINDS = ("left", "right", "name", "names", "search", "model", "recipe", "earlier")
_STUDIES = "SELECT study_name FROM studies"
_RUNS = """
    SELECT DISTINCT a.value FROM tags a JOIN tags b USING (run_uuid)
    WHERE a.key = ? AND b.key = ? AND b.value = ?
"""


def candidates(line: str) -> list[str]:
    """Return the words for the place at the end of `line`; none where a file belongs, or nothing fits."""
    tokens = _tokens(line)
    if not tokens:
        return []
    *before, current = tokens
    with contextlib.suppress(UserError, OSError):
        found = dict.fromkeys(word for word in _fitting(before, current) if PLAIN.fullmatch(word))
        return sorted(word for word in found if word.startswith(current))
    return []


def _tokens(line: str) -> list[str]:
    """Return the words after the program's name, the unfinished one last (empty after a blank)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    tokens: list[str] = []
    try:
        tokens += lexer
    except ValueError:  # an open quote
        tokens = line.split()
    return [*tokens[1:], ""] if line[-1:].isspace() else tokens[1:]


def _fitting(before: Sequence[str], current: str) -> Iterator[str]:
    if not before:
        yield from (*COMMANDS, "help", "--help", "--version")
        return
    command, given = before[0], before[1:]
    if command == "help" or command not in COMMANDS:
        return
    parser = parser_of(command)
    option, equals, _ = current.partition("=")
    takers = {name: action for action in parser._actions for name in action.option_strings}
    if given and (action := takers.get(given[-1])) is not None and action.nargs != 0:
        yield from _values(command, action, given, current)
    elif equals and option in takers:
        yield from (f"{option}={value}" for value in _values(command, takers[option], given, current))
    elif current.startswith("-"):
        yield from (name for name in takers if name not in given)
    else:
        yield from _positional(command, parser, takers, given, current)


def _positional(
    command: str,
    parser: Parser,
    takers: dict[str, argparse.Action],
    given: Sequence[str],
    current: str,
) -> Iterator[str]:
    """Yield words for the next positional argument: those before it are counted, options are not."""
    places = [action for action in parser._actions if not action.option_strings]
    count, skipped = 0, False
    for word in given:
        taker = takers.get(word)
        count += not (skipped or word.startswith("-"))
        skipped = taker is not None and taker.nargs != 0
    if given and "space" in (place.dest for place in places) and _replaces_space(given):
        count += 1
    if not places or (count >= len(places) and places[-1].nargs not in ("*", "+")):
        return
    yield from _values(command, places[min(count, len(places) - 1)], given, current)


def _replaces_space(given: Sequence[str]) -> bool:
    return any(word.split("=")[0] == "--data" or word.split("=")[0] == "--from" for word in given)


def _values(command: str, action: argparse.Action, given: Sequence[str], current: str) -> Iterator[str]:
    if action.choices is not None:
        yield from map(str, action.choices)
    elif action.dest == "overrides":
        yield from _overrides(current)
    elif action.dest == "key":
        yield from meanings()
        yield from COMPONENTS
    elif action.dest == "space" or (command == "weights" and action.dest == "names"):
        yield from _named("search_spaces")
    elif action.dest == "job":
        yield from _named("jobs")
    elif command == "data" and action.dest == "name":
        yield from _names_in(COMPONENTS["data"])
    elif action.dest in BOTH_KINDS and command not in ("search", "train", "reproduce"):
        yield from _stored(given, searches=command in OF_SEARCHES)
    elif "--from" in action.option_strings:
        yield from _stored(given, searches=command == "search")
    elif "--name" in action.option_strings:
        yield from _stored(given, searches=True)


def _overrides(current: str) -> Iterator[str]:
    """Yield `references.lambda=` for every key, and after `loss=` the names of losses."""
    key, equals, _ = current.partition("=")
    section = key.removesuffix(".name")
    if not equals:
        yield from (f"{known}=" for known in (*meanings(), *COMPONENTS) if known not in ("about", "extends"))
    elif section in COMPONENTS and key in (section, f"{section}.name"):
        yield from (f"{key}={name}" for name in _names_in(COMPONENTS[section]))


def _names_in(folder: str) -> Iterator[str]:
    for file in (Path(dmltune.__path__[0]) / folder).glob("*.py"):
        if not file.stem.startswith(("_", "from_")):
            yield file.stem


def _named(kind: str) -> Iterator[str]:
    """Yield the names of spaces or jobs: the user's, and those that come with dmltune."""
    package = Path(dmltune.__path__[0])
    for folder in (Path(kind), package / kind, package.parent / kind):
        for suffix in ("*.yaml", "*.yml"):
            yield from (file.stem for file in folder.glob(suffix) if not file.name.startswith("."))


def _stored(given: Sequence[str], searches: bool) -> Iterator[str]:
    """Yield the names of searches of the store, or those of all its searches, trainings and checks."""
    named = [word.partition("=")[2] for word in given if word.startswith("--store=")]
    named += [after for word, after in itertools.pairwise(given) if word == "--store"]
    root = Path((named or [os.environ.get("DMLTUNE_STORE") or "mlruns"])[-1]).expanduser()
    if (root / "searches").is_dir() and searches:
        yield from (folder.name for folder in (root / "searches").iterdir() if folder.is_dir())
    if not os.environ.get("DMLTUNE_OPTUNA_STORAGE"):
        yield from _read(root / "optuna.db", _STUDIES)
    if not (searches or os.environ.get("MLFLOW_TRACKING_URI")):
        yield from _read(root / "mlflow.db", _RUNS, (tags.NAME, tags.NUMBER, tags.PARENT))


def _read(database: Path, question: str, values: Sequence[str] = ()) -> Iterator[str]:
    if not database.is_file():
        return
    address = f"{database.absolute().as_uri()}?mode=ro"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(address, uri=True, timeout=0.1)) as connection,
    ):
        yield from (str(row[0]) for row in connection.execute(question, tuple(values)).fetchall())
