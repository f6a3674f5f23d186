from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dmltune.cli.output import output, plain


@dataclass
class Row:
    score: float
    where: Path


def test_dataclasses_paths_and_arrays_numbers_become_json_and_nan_becomes_null() -> None:
    rows = {
        "rows": (Row(float("nan"), Path("a/b")), Row(0.5, Path("c"))),
        3: np.float32(0.25),
        "n": np.int64(4),
    }
    assert plain(rows) == {
        "rows": [{"score": None, "where": "a/b"}, {"score": 0.5, "where": "c"}],
        "3": 0.25,
        "n": 4,
    }
    json.dumps(plain(rows), allow_nan=False)


def test_what_json_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        plain(object())


def test_in_json_nothing_but_the_document_reaches_stdout() -> None:
    """Not even what a library prints in C, or what a process that is started meanwhile prints."""
    code = """
import os, subprocess
from dmltune.cli.output import output
with output("json") as out:
    print("from python")
    os.write(1, b"from C\\n")
    subprocess.run(["echo", "from a child"])
    out.show("a table")
    out.document({"ok": True})
print("afterwards")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    document, _, rest = done.stdout.partition("\nafterwards")
    assert json.loads(document) == {"ok": True}
    assert rest == "\n"
    assert {"from python", "from C", "from a child"} <= set(done.stderr.splitlines())


def test_a_replaced_stdout_gets_the_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    with output("json") as out:
        print("noise")
        out.document([1, 2])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [1, 2]
    assert captured.err == "noise\n"


def test_tables_print_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    with output("table") as out:
        out.document({"a": 1})
        out.show("text [not markup")
    assert capsys.readouterr().out == "text [not markup\n"
