"""The commands of README.md and docs/ run, on a finished search under the names that they use.

Left out is what trains for long, serves until it is stopped, or needs a cluster, a server or data that are
not here: `tests/cli`, `tests/serving`, `tests/tracking` and `tests/search` run those, smaller.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.driving import Place
from support.finished_search import NAME, finished_search

from dmltune import tags
from dmltune.cli import parser_of
from dmltune.errors import UserError

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
LONG = {  # command → the test that runs it
    "search": "search/test_whole_search.py",
    "resume": "cli/test_store.py",
    "check": "check/test_check.py",
    "reproduce": "reproduce/test_table_runs.py",
    "serve": "serving/test_http.py",
    "ui": "tracking/test_pages.py",
    "submit": "cli/test_submit.py",
    "jobs": "cli/test_submit.py",
    "importance": "cli/test_importance.py",
    "train": "cli/test_six_commands.py",
    "weights": "weights",
    "store": "cli/test_store.py",
    "stop": "cli/test_stop.py",
    "data": "cli/test_data.py",
    "table": "cli/test_table.py",
    "doctor": "cli/test_doctor.py",
}
LAST = ("rm",)


def shown() -> list[str]:
    """The indented and the quoted commands of all pages; placeholders in capitals are no commands."""
    lines: set[str] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = re.findall(r"^    (dmltune .*)$", text, flags=re.MULTILINE)
        found += re.findall(r"`(dmltune [^`]+)`", text)
        lines |= {line.partition("  #")[0].partition(" | ")[0].strip() for line in found}
    return sorted(line for line in lines if not re.search(r"\b[A-Z]{4,}\b|://", line))


def command_of(line: str) -> str:
    return shlex.split(line)[1]


def is_whole(line: str) -> bool:
    """Whether it has its arguments: `dmltune embed` in a sentence has none."""
    _, name, *words = shlex.split(line)
    try:
        parser_of(name).parse(words)
    except UserError:
        return bool(words)
    return True


RUN = [line for line in shown() if command_of(line) not in LONG and is_whole(line)]
RUN.sort(key=lambda line: command_of(line) in LAST)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A folder with the names of the pages: searches demo and shop, photos, new.jpg, an index."""
    folder = tmp_path_factory.mktemp("commands")
    place = Place(folder)
    finished_search(tmp_path_factory).copy(place.store)
    _rename(place.store, "demo")
    numbers = np.random.default_rng(0)
    for label in ("a", "b"):
        (folder / "photos" / label).mkdir(parents=True)
        for number in range(3):
            pixels = numbers.integers(0, 255, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / label / f"{number}.png")
    shutil.copy(folder / "photos" / "a" / "0.png", folder / "new.jpg")
    for line in ("dmltune export-config demo -o base.yaml", "dmltune index demo photos -o photos.index"):
        code, _, errors = place.run(*shlex.split(line)[1:])
        assert code == 0, errors
    yield place
    place.clean_up()


def _rename(store: Path, name: str) -> None:
    """Give the search of the tests the name that the pages use."""
    with sqlite3.connect(store / "optuna.db") as studies:
        studies.execute("UPDATE studies SET study_name = ? WHERE study_name = ?", (name, NAME))
    with sqlite3.connect(store / "mlflow.db") as runs:
        runs.execute("UPDATE tags SET value = ? WHERE key = ? AND value = ?", (name, tags.NAME, NAME))
    if (store / "searches" / NAME).exists():
        shutil.move(store / "searches" / NAME, store / "searches" / name)


@pytest.mark.parametrize("line", RUN)
def test_a_command_of_the_pages_runs(line: str, place: Place) -> None:
    words = [("demo" if word == "shop" else word) for word in shlex.split(line)[1:]]
    words += ["--yes"] if words[0] in LAST else []  # it asks, and there is no terminal to answer
    for option, file in itertools.pairwise(words):
        if option in ("-o", "--page"):  # written by another page's command before
            (place.folder / file).unlink(missing_ok=True)
    code, out, errors = place.run(*words)
    assert code == 0, errors
    assert out


def test_what_is_not_run_here_has_a_test_of_its_own_and_parses() -> None:
    for line in filter(is_whole, shown()):
        name, *words = shlex.split(line)[1:]
        parser_of(name).parse(words)
        if name in LONG:
            test = ROOT / "tests" / LONG[name]
            files = [test] if test.is_file() else list(test.glob("*.py"))
            assert any(name in file.read_text(encoding="utf-8") for file in files), name
