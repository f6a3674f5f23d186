"""Completion driven in real shells: keys go into a terminal, and what stands on the line is read back."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from support.stored_searches import point, reference, write_search
from support.stores import new_store

from dmltune.cli import COMMANDS, main
from dmltune.cli.candidates import candidates
from dmltune.meanings import meanings

BIN = Path(sys.executable).parent
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(dmltune completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -Uz compinit; compinit -u -D; eval "$(dmltune completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "dmltune completion fish | source"),
}
SECONDS = 60


class Terminal:
    """An interactive shell in a terminal of 200 columns."""

    def __init__(self, shell: str, folder: Path) -> None:
        words, setup = START[shell]
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb" if shell != "fish" else "xterm",
            "PS1": "> ",
            "LANG": "C.UTF-8",
        }
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.seen = ""
        self.send(f"{setup}; echo rea''dy\r")
        self.until("ready\r")

    def send(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def until(self, pattern: str) -> str:
        """Read until `pattern` is there; forget all that was read, and return it."""
        end = time.monotonic() + SECONDS
        while not re.search(pattern, self.seen):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.descriptor], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            read = os.read(self.descriptor, 65536).decode(errors="replace")
            self.seen += re.sub(r"\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b[()=>].?|\x1b\][^\x07]*\x07", "", read)
            if "\x1b[c" in read or "\x1b[0c" in read:  # fish asks what the terminal is
                self.send("\x1b[?1;2c")
        seen, self.seen = self.seen, ""
        return seen

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, a space and a picture of its own."""
    folder = tmp_path_factory.mktemp("shell")
    write_search(new_store(folder / "mlruns"), "my-search", [reference(0.5), point(0.4)])
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "wide-margins.yaml").write_text("extends: glyphs-ccp\n")
    (folder / "a-picture.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="module", params=list(START))
def terminal(request: pytest.FixtureRequest, folder: Path) -> Iterator[Terminal]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    terminal = Terminal(request.param, folder)
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("dmltune import", "dmltune importance "),
        ("dmltune search --conc", "dmltune search --concurrent "),
        ("dmltune search wide", "dmltune search wide-margins "),
        ("dmltune best my", "dmltune best my-search "),
        ("dmltune explain references.lam", "dmltune explain references.lambda "),
        ("dmltune search glyphs references.lam", "dmltune search glyphs references.lambda="),
        ("dmltune search glyphs loss=contrastive_", "dmltune search glyphs loss=contrastive_cosine "),
        ("dmltune search --cache=mem", "dmltune search --cache=memory "),
        ("dmltune embed my-search a-pic", "dmltune embed my-search a-picture.png "),
    ],
)
def test_a_tab_completes_the_word(terminal: Terminal, typed: str, whole: str) -> None:
    terminal.send(f"{typed}\t")
    # typed after the completion: it shows what is on the line
    terminal.until(re.escape(whole.rstrip()[len(typed) :]))
    terminal.send("X\x01echo '<\x05>'\r")
    seen = terminal.until(r"[\r\n]<.*>\r")
    assert f"<{whole}X>" in seen


def test_what_is_ambiguous_is_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert candidates("dmltune re") == ["report", "reproduce", "resume"]
    assert set(candidates("dmltune ")) >= set(COMMANDS)
    keys = candidates("dmltune search glyphs ")
    assert {f"{key}=" for key in meanings() if key not in ("about", "extends")} <= set(keys)


def test_options_that_stand_already_are_left_out_and_their_values_are_not_counted() -> None:
    assert "--trials" in candidates("dmltune search cub-ccp --t")
    assert "--trials" not in candidates("dmltune search --trials 5 --t")
    assert candidates("dmltune search --trials 5 cub-cc") == ["cub-ccp", "cub-ccp-gsp"]
    assert candidates("dmltune search --data photos max_st") == ["max_steps="]


def test_names_come_from_the_store_of_the_line(folder: Path, tmp_path: Path) -> None:
    assert candidates(f"dmltune best --store {folder / 'mlruns'} ") == ["my-search"]
    assert candidates(f"dmltune evaluate --store={folder / 'mlruns'} m") == ["my-search"]
    assert candidates(f"dmltune best --store {tmp_path} ") == []
    assert list(tmp_path.iterdir()) == []  # a question makes no store


@pytest.mark.parametrize(
    "line", ["", "dmltune", "dmltune nothing ", "dmltune search 'open", "dmltune best --store \x00 "]
)
def test_a_line_without_sense_has_no_candidates_and_no_error(line: str) -> None:
    assert candidates(line) == []


def test_a_completion_loads_nothing_heavy() -> None:
    """0.1 s of a processor: with torch it would be a second."""
    code = (
        "import sys; from dmltune.cli import main;"
        "main(['completion', '--words-of', 'dmltune search glyphs references.lam']);"
        "heavy = ('torch', 'ray', 'mlflow', 'optuna', 'numpy', 'pydantic', 'rich', 'ruamel');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["references.lambda=", "[]"]


def test_an_unknown_shell_is_a_mistake_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
