"""Processes: closed and full outputs, encodings, a working folder that was removed, left-over files."""

from __future__ import annotations

import os
from pathlib import Path

from malformed.case import Case, plan

HEAD = 'set -o pipefail; "$@" | head -1'
ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
GONE = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
SHOWING = {
    "overview": (),
    "help": ("search", "--help"),
    "spaces": ("spaces",),
    "json": ("spaces", "-f", "json"),
    "methods": ("methods", "loss"),
    "data": ("data", "list"),
    "plan": plan("data.classes=40", "data.size=16", "batch.size=16"),
}


def odd_space(folder: Path) -> None:
    spaces = folder / "search_spaces"
    spaces.mkdir()
    (spaces / "esc\x1b[31m.yaml").write_text("about: x\nextends: glyphs\n")
    (spaces / os.fsdecode(b"\xff.yaml")).write_text("about: x\nextends: glyphs\n")
    (spaces / "about.yaml").write_text('about: "\\e[31mred"\nextends: glyphs\n')


def file_as_store(folder: Path) -> None:
    (folder / "s").write_text("no folder")


CASES = [
    *(Case(f"head/{name}", command, code=0, shell=HEAD) for name, command in SHOWING.items()),
    *(
        Case(f"full/{name}", command, "cannot be written", code=1, shell='exec "$@" >/dev/full')
        for name, command in SHOWING.items()
    ),
    *(
        Case(f"closed/{name}", SHOWING[name], code=0, shell='exec "$@" >&-')
        for name in ("overview", "spaces", "json")
    ),
    Case(
        "closed/stderr",
        ("search", "nosuch", "--store", "{store}"),
        "^empty$",
        code=0,
        shell='out=$("$@" 2>&-); code=$?; [ $code = 2 ] && [ -z "$out" ] && echo empty',
    ),
    *(
        Case(f"ascii/{name}", SHOWING[name], code=0, env=ASCII, shell='exec "$@"')
        for name in ("overview", "spaces", "methods", "plan")
    ),
    Case(
        "latin-1/spaces",
        ("spaces",),
        code=0,
        env={"PYTHONIOENCODING": "latin-1:strict"},
        shell='"$@" | iconv -f latin1',
    ),
    Case("ascii/mistake", ("search", "ü", "--store", "{store}"), env=ASCII, shell='exec "$@"'),
    *(
        Case(f"cwd-removed/{name}", command, "folder was removed", shell=GONE)
        for name, command in {"spaces": ("spaces",), "plan": plan(), "table": ("table",)}.items()
    ),
    *(
        Case(f"left-over/{name}", plan(f"backbone={name}/nope"), shell='exec "$@"', seconds=60)
        for name in ("torchvision", "timm")
    ),
    Case(
        "left-over/doctor-store-file",
        ("doctor", "--store", "s"),
        "FAILED",
        code=1,
        prepare=file_as_store,
        shell='exec "$@"',
        seconds=70,
    ),
    *(
        Case(f"columns/{name}", ("spaces",), code=0, env={"COLUMNS": text})
        for name, text in {"digits": "9" * 5000, "superscript": "²", "negative": "-5", "zero": "0"}.items()
    ),
    Case("odd-spaces/table", ("spaces",), code=0, prepare=odd_space),
    Case("odd-spaces/json", ("spaces", "-f", "json"), code=0, prepare=odd_space),
]
