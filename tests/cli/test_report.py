"""`dmltune report`: the page of a search and its figures; mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stored_searches import WrittenTrial, point, reference, write_search
from support.stores import new_store

from dmltune.cli import main


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    baseline = WrittenTrial("baseline", {0: 0.1, 20: 0.2})
    outcome = {"winner": 2, "winner_set": [2], "noise": None, "lead_is_noise": None}
    write_search(
        new_store(tmp_path / "store"), "demo", (reference(0.3), baseline, point(0.4)), outcome=outcome
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def test_the_page_is_written_beside_its_figures(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--store", str(store), "--figures", "figures", "-f", "json"]
    assert main(["report", "demo", *options]) == 0
    document = json.loads(capsys.readouterr().out)
    page = Path("demo.html").read_text("utf-8")
    assert "Trial 2 is the best" in page
    assert "No pictures of what is retrieved" in page  # the store has no model
    assert document["bytes"] == Path("demo.html").stat().st_size
    names = {Path(file).name for file in document["figures"]}
    assert {"comparison.pdf", "history.png", "curves.svg"} <= names
    assert all(Path(file).stat().st_size > 1000 for file in document["figures"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demoo"], "did you mean 'demo'?"),
        (["../x"], "a name must be letters"),
        (["demo", "-o", "page.pdf"], "-o must name an .html file"),
        (["demo", "-o", "store/mlflow.db/page.html", "--no-pictures"], "cannot be written"),
    ],
)
def test_a_mistake_is_one_line(
    store: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments, "--store", str(store)]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
